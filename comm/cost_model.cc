// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/cost_model.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/schedule.h"

namespace shoal::internal {
namespace {

constexpr double kUnknown = -1;

// The steps of one rank with the times at which they end.
struct RankTimes {
  const Schedule* schedule = nullptr;
  // Steps by the port that they occupy, in order, and the first one that has
  // not had it yet.
  std::vector<std::int32_t> sends;
  std::vector<std::int32_t> receives;
  std::size_t next_send = 0;
  std::size_t next_receive = 0;
  double send_port_free = 0;
  double receive_port_free = 0;
  // When a message has come in full.
  std::vector<double> arrival;
  std::vector<double> end;
  // Copies, and steps whose message has come, that have not ended.
  std::vector<std::int32_t> pending;
  std::size_t ended = 0;
};

class Pricing {
 public:
  Pricing(absl::Span<const Schedule> schedules, const LinkCost& cost)
      : cost_(cost), ranks_(schedules.size()) {
    for (std::size_t r = 0; r < schedules.size(); ++r) {
      RankTimes& rank = ranks_[r];
      rank.schedule = &schedules[r];
      const std::vector<Step>& steps = schedules[r].steps;
      rank.arrival.assign(steps.size(), kUnknown);
      rank.end.assign(steps.size(), kUnknown);
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const std::int32_t index = static_cast<std::int32_t>(i);
        if (IsLocal(steps[i].kind)) rank.pending.push_back(index);
        if (steps[i].kind == StepKind::kSend) rank.sends.push_back(index);
        if (steps[i].kind == StepKind::kReceive ||
            steps[i].kind == StepKind::kReceiveReduce) {
          rank.receives.push_back(index);
        }
      }
    }
  }

  absl::StatusOr<double> Run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (RankTimes& rank : ranks_) {
        while (EndSteps(&rank) || Transfer(&rank)) moved = true;
      }
    }
    double last = 0;
    for (const RankTimes& rank : ranks_) {
      if (rank.ended < rank.end.size()) {
        return absl::FailedPreconditionError(
            absl::StrCat("rank ", rank.schedule->rank, " of ",
                         rank.schedule->CallText(), " never comes to its end"));
      }
      for (const double end : rank.end) last = std::max(last, end);
    }
    return last;
  }

 private:
  double Bytes(const RankTimes& rank, std::int32_t step) const {
    return static_cast<double>(rank.schedule->steps[step].target.count) *
           static_cast<double>(DTypeSize(rank.schedule->signature.dtype));
  }

  // When all that the step waits for on its own rank has ended.
  static double Ready(const RankTimes& rank, std::int32_t step) {
    const Step& definition = rank.schedule->steps[step];
    double ready = 0;
    if (definition.after >= 0) {
      if (rank.end[definition.after] == kUnknown) return kUnknown;
      ready = rank.end[definition.after];
    }
    for (const std::int32_t earlier : definition.depends_on) {
      if (rank.end[earlier] == kUnknown) return kUnknown;
      ready = std::max(ready, rank.end[earlier]);
    }
    return ready;
  }

  // Ends the pending steps that wait for nothing any more.
  bool EndSteps(RankTimes* rank) const {
    std::size_t left = 0;
    for (const std::int32_t step : rank->pending) {
      const double ready = Ready(*rank, step);
      if (ready == kUnknown) {
        rank->pending[left++] = step;
        continue;
      }
      rank->end[step] = std::max(ready, rank->arrival[step]);
      const Step& definition = rank->schedule->steps[step];
      if (definition.kind == StepKind::kReceiveReduce) {
        rank->end[step] += Bytes(*rank, step) * cost_.reduce_seconds_per_byte;
      }
      if (definition.kind == StepKind::kFold) {
        rank->end[step] += Bytes(*rank, step) *
                           static_cast<double>(definition.operands.size() - 1) *
                           cost_.reduce_seconds_per_byte;
      }
      ++rank->ended;
    }
    const bool moved = left < rank->pending.size();
    rank->pending.resize(left);
    return moved;
  }

  // Transfers the rank's next message, if its receiver comes to it as well.
  bool Transfer(RankTimes* sender) {
    if (sender->next_send == sender->sends.size()) return false;
    const std::int32_t send = sender->sends[sender->next_send];
    const double ready = Ready(*sender, send);
    if (ready == kUnknown) return false;
    RankTimes& receiver = ranks_[sender->schedule->steps[send].peer];
    if (receiver.next_receive == receiver.receives.size()) return false;
    const std::int32_t receive = receiver.receives[receiver.next_receive];
    if (receiver.schedule->steps[receive].peer != sender->schedule->rank) {
      return false;
    }
    const double start =
        std::max({ready, sender->send_port_free, receiver.receive_port_free});
    const double end = start + cost_.latency_seconds +
                       Bytes(*sender, send) * cost_.seconds_per_byte;
    sender->arrival[send] = end;
    receiver.arrival[receive] = end;
    sender->send_port_free = end;
    receiver.receive_port_free = end;
    sender->pending.push_back(send);
    receiver.pending.push_back(receive);
    ++sender->next_send;
    ++receiver.next_receive;
    return true;
  }

  const LinkCost cost_;
  std::vector<RankTimes> ranks_;
};

}  // namespace

absl::StatusOr<double> PriceSchedules(absl::Span<const Schedule> schedules,
                                      const LinkCost& cost) {
  return Pricing(schedules, cost).Run();
}

absl::StatusOr<double> PriceCollective(const CallSignature& signature,
                                       int world_size, const LinkCost& cost) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < world_size; ++rank) {
    SHOAL_ASSIGN_OR_RETURN(
        Schedule schedule,
        BuildSchedule(signature, rank, world_size, /*in_place=*/false));
    schedules.push_back(std::move(schedule));
  }
  return PriceSchedules(schedules, cost);
}

}  // namespace shoal::internal
