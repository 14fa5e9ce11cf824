// SPDX-License-Identifier: Apache-2.0

#include "shoal/tools/comm_bench/flags.h"

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/algorithm.h"
#include "shoal/comm/algorithm_policy.h"
#include "shoal/comm/call.h"
#include "shoal/comm/dtype.h"
#include "shoal/comm/reduce_op.h"
#include "shoal/comm/wire_format.h"
#include "shoal/tools/comm_bench/collectives.h"
#include "shoal/tools/common/flag_reader.h"

namespace shoal::comm_bench {
namespace {

using tools::ParseInteger;

constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;
constexpr std::int64_t kMaxCount = 1'000'000;
constexpr std::int64_t kMaxSizes = 100'000;

constexpr tools::FlagName kFlagNames[] = {{"--world"},
                                          {"--collective"},
                                          {"--minbytes", "-b"},
                                          {"--maxbytes", "-e"},
                                          {"--stepbytes", "-i"},
                                          {"--stepfactor", "-f"},
                                          {"--iters", "-n"},
                                          {"--warmup_iters", "-w"},
                                          {"--check", "-c"},
                                          {"--op", "-o"},
                                          {"--datatype", "-d"},
                                          {"--root", "-r"},
                                          {"--unaligned", "-u"},
                                          {"--output_file", "-J"},
                                          {"--algo"},
                                          {"--wire"},
                                          {"--halves"},
                                          {"--svg"},
                                          {"--trace"},
                                          {"--explain", "", false},
                                          {"--plot", "", false},
                                          {"--help", "-h", false}};

absl::StatusOr<std::int64_t> ParseSize(absl::string_view flag,
                                       absl::string_view value) {
  const absl::StatusOr<std::int64_t> bytes = tools::ParseBytes(value);
  if (bytes.ok() && *bytes <= kMaxSize) return *bytes;
  return absl::InvalidArgumentError(
      absl::StrCat(flag,
                   " takes a size from 0 to 1024GiB, such as 65536, 64K "
                   "or 64KiB, not \"",
                   value, "\""));
}

absl::StatusOr<std::string> ParseFile(absl::string_view flag,
                                      absl::string_view value) {
  if (!value.empty()) return std::string(value);
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " takes the name of a file"));
}

// The name that nccl-tests has for a type, as Shoal has it.
absl::string_view ShoalTypeName(absl::string_view name) {
  constexpr absl::string_view kNames[][2] = {
      {"float", "f32"},     {"double", "f64"}, {"half", "f16"},
      {"bfloat16", "bf16"}, {"int8", "i8"},    {"uint8", "u8"},
      {"int32", "i32"},     {"int64", "i64"}};
  for (const auto& [theirs, ours] : kNames) {
    if (name == theirs) return ours;
  }
  return name;
}

template <typename T>
absl::StatusOr<T> NamedAfter(absl::string_view flag, absl::StatusOr<T> value) {
  if (value.ok()) return value;
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": ", value.status().message()));
}

absl::Status SetCollectives(absl::string_view value, Flags* flags) {
  flags->collectives.clear();
  if (value == "all") {
    for (const Collective& collective : AllCollectives()) {
      flags->collectives.push_back(&collective);
    }
    return absl::OkStatus();
  }
  for (absl::string_view name : absl::StrSplit(value, ',')) {
    SHOAL_ASSIGN_OR_RETURN(const Collective* collective,
                           NamedAfter("--collective", FindCollective(name)));
    flags->collectives.push_back(collective);
  }
  return absl::OkStatus();
}

absl::Status SetType(absl::string_view value, Flags* flags) {
  if (value == "all") {
    flags->dtypes.assign(std::begin(kAllDTypes), std::end(kAllDTypes));
    return absl::OkStatus();
  }
  SHOAL_ASSIGN_OR_RETURN(
      const DType dtype,
      NamedAfter("--datatype", ParseDType(ShoalTypeName(value))));
  flags->dtypes = {dtype};
  return absl::OkStatus();
}

absl::Status SetOp(absl::string_view value, Flags* flags) {
  if (value == "all") {
    flags->ops.assign(std::begin(kAllReduceOps), std::end(kAllReduceOps));
    flags->ops.push_back(ReduceOp::kUser);
    return absl::OkStatus();
  }
  if (value == ReduceOpName(ReduceOp::kUser)) {
    flags->ops = {ReduceOp::kUser};
    return absl::OkStatus();
  }
  SHOAL_ASSIGN_OR_RETURN(const ReduceOp op,
                         NamedAfter("--op", ParseReduceOp(value)));
  flags->ops = {op};
  return absl::OkStatus();
}

absl::Status SetHalves(absl::string_view value, Flags* flags) {
  if (value == "both") {
    flags->halves = Halves::kBoth;
  } else if (value == "out_of_place") {
    flags->halves = Halves::kOutOfPlace;
  } else if (value == "in_place") {
    flags->halves = Halves::kInPlace;
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "--halves takes both, out_of_place or in_place, not \"", value, "\""));
  }
  return absl::OkStatus();
}

// Flags that say what is measured how often. Whether `name` is one of them.
absl::StatusOr<bool> SetMeasureFlag(absl::string_view name,
                                    absl::string_view value, Flags* flags) {
  if (name == "--minbytes") {
    SHOAL_ASSIGN_OR_RETURN(flags->min_bytes, ParseSize(name, value));
  } else if (name == "--maxbytes") {
    SHOAL_ASSIGN_OR_RETURN(flags->max_bytes, ParseSize(name, value));
  } else if (name == "--stepbytes") {
    SHOAL_ASSIGN_OR_RETURN(flags->step_bytes, ParseSize(name, value));
  } else if (name == "--stepfactor") {
    SHOAL_ASSIGN_OR_RETURN(flags->step_factor,
                           ParseInteger(name, value, 1, kMaxCount));
  } else if (name == "--iters" && value == "auto") {
    flags->iterations = 0;
  } else if (name == "--iters") {
    SHOAL_ASSIGN_OR_RETURN(flags->iterations,
                           ParseInteger(name, value, 1, kMaxCount));
  } else if (name == "--warmup_iters") {
    SHOAL_ASSIGN_OR_RETURN(flags->warmups,
                           ParseInteger(name, value, 0, kMaxCount));
  } else if (name == "--check") {
    SHOAL_ASSIGN_OR_RETURN(flags->checks,
                           ParseInteger(name, value, 0, kMaxCount));
  } else if (name == "--root") {
    SHOAL_ASSIGN_OR_RETURN(flags->root,
                           ParseInteger(name, value, 0, kMaxWorld - 1));
  } else if (name == "--unaligned") {
    SHOAL_ASSIGN_OR_RETURN(flags->unaligned, ParseInteger(name, value, 0, 1));
  } else {
    return false;
  }
  return true;
}

absl::Status SetFlag(absl::string_view name, absl::string_view value,
                     Flags* flags) {
  SHOAL_ASSIGN_OR_RETURN(const bool done, SetMeasureFlag(name, value, flags));
  if (done) return absl::OkStatus();
  if (name == "--collective") return SetCollectives(value, flags);
  if (name == "--op") return SetOp(value, flags);
  if (name == "--datatype") return SetType(value, flags);
  if (name == "--halves") return SetHalves(value, flags);
  if (name == "--world") {
    SHOAL_ASSIGN_OR_RETURN(flags->world,
                           ParseInteger(name, value, 1, kMaxWorld));
  } else if (name == "--algo") {
    SHOAL_ASSIGN_OR_RETURN(flags->algorithm,
                           NamedAfter(name, ParseAlgorithm(value)));
  } else if (name == "--wire") {
    SHOAL_ASSIGN_OR_RETURN(flags->wire,
                           NamedAfter(name, ParseWireFormat(value)));
  } else if (name == "--output_file") {
    SHOAL_ASSIGN_OR_RETURN(flags->json, ParseFile(name, value));
  } else if (name == "--svg") {
    SHOAL_ASSIGN_OR_RETURN(flags->svg, ParseFile(name, value));
  } else if (name == "--trace") {
    SHOAL_ASSIGN_OR_RETURN(flags->trace, ParseFile(name, value));
  } else if (name == "--explain") {
    flags->explain = true;
  } else if (name == "--plot") {
    flags->plot = true;
  } else {
    flags->help = true;
  }
  return absl::OkStatus();
}

absl::Status CheckPlot(const Flags& flags) {
  if (flags.operands.empty()) {
    return absl::InvalidArgumentError(
        "--plot draws runs: name the files that -J wrote");
  }
  if (flags.svg.empty()) {
    return absl::InvalidArgumentError(
        "--plot needs --svg FILE, the picture to write");
  }
  return absl::OkStatus();
}

// What a wire format that is not the data's own goes together with.
absl::Status CheckWire(const Flags& flags) {
  if (flags.wire == WireFormat::kAsData) return absl::OkStatus();
  const absl::string_view wire = WireFormatName(flags.wire);
  for (const Collective* collective : flags.collectives) {
    if (collective->has_op) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--wire ", wire, ": ", collective->name,
                     " has no choice of wire formats; all_reduce, "
                     "reduce_scatter, reduce and all_reduce_coalesced have"));
  }
  bool any = false;
  for (const DType dtype : flags.dtypes) {
    for (const ReduceOp op : flags.ops) {
      if (!ReductionTakes(op, dtype, flags.wire)) continue;
      any = true;
      for (const Collective* collective : flags.collectives) {
        CallSignature call;
        call.kind = *collective->kind;
        call.dtype = dtype;
        call.op = op;
        call.algorithm = flags.algorithm;
        call.wire = flags.wire;
        SHOAL_RETURN_IF_ERROR(
            NamedAfter("--wire",
                       ChooseAlgorithm(call, kDefaultWorld, AlgorithmPolicy()))
                .status());
      }
    }
  }
  if (any) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--wire ", wire, " is not one of --datatype ",
      flags.dtypes.size() == 1 ? DTypeName(flags.dtypes[0]) : "all",
      " with --op ", flags.ops.size() == 1 ? ReduceOpName(flags.ops[0]) : "all",
      "; f32 takes f16 and bf16, but not user, and bf16 and q8_0 take f32"));
}

absl::Status CheckTogether(const Flags& flags) {
  if (flags.plot) return CheckPlot(flags);
  if (!flags.operands.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", flags.operands.front(),
                     "\" is not a flag; --help lists those that there are"));
  }
  if (flags.min_bytes > flags.max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--minbytes ", flags.min_bytes,
                     " is more than --maxbytes ", flags.max_bytes));
  }
  if (flags.step_factor > 1 && flags.min_bytes == 0 && flags.max_bytes > 0) {
    return absl::InvalidArgumentError(
        "--minbytes 0 never grows by --stepfactor; begin with a size above 0");
  }
  if (flags.step_factor == 1 && flags.min_bytes < flags.max_bytes) {
    if (flags.step_bytes == 0) {
      return absl::InvalidArgumentError(
          "--stepbytes 0 never gets from --minbytes to --maxbytes");
    }
    if ((flags.max_bytes - flags.min_bytes) / flags.step_bytes > kMaxSizes) {
      return absl::InvalidArgumentError(
          absl::StrCat("--stepbytes ", flags.step_bytes, " makes more than ",
                       kMaxSizes, " sizes; -f 2 doubles them instead"));
    }
  }
  if (flags.ops.size() == 1 && flags.dtypes.size() == 1 &&
      !ReduceOpTakes(flags.ops[0], flags.dtypes[0])) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--op ", ReduceOpName(flags.ops[0]), " is not one of ",
        DTypeName(flags.dtypes[0]), "; --datatype i32, for one, has it"));
  }
  for (const Collective* collective : flags.collectives) {
    if (flags.algorithm == Algorithm::kAuto) break;
    bool has_it = false;
    if (collective->kind.has_value()) {
      for (const Algorithm algorithm : AlgorithmsOf(*collective->kind)) {
        has_it = has_it || algorithm == flags.algorithm;
      }
    }
    if (!has_it) {
      return absl::InvalidArgumentError(
          absl::StrCat("--algo: ", collective->name, " has no algorithm ",
                       AlgorithmName(flags.algorithm)));
    }
  }
  return CheckWire(flags);
}

}  // namespace

absl::StatusOr<Flags> ParseFlags(const std::vector<std::string>& arguments) {
  SHOAL_ASSIGN_OR_RETURN(tools::CommandLine command_line,
                         tools::ReadCommandLine(arguments, kFlagNames));
  Flags flags;
  SHOAL_RETURN_IF_ERROR(SetCollectives("all_reduce", &flags));
  for (const tools::GivenFlag& flag : command_line.flags) {
    SHOAL_RETURN_IF_ERROR(SetFlag(flag.name, flag.value, &flags));
  }
  flags.operands = command_line.operands;
  if (flags.help) return flags;
  SHOAL_RETURN_IF_ERROR(CheckTogether(flags));
  return flags;
}

std::vector<std::int64_t> SweepSizes(const Flags& flags) {
  std::vector<std::int64_t> sizes;
  std::int64_t bytes = flags.min_bytes;
  while (bytes <= flags.max_bytes) {
    sizes.push_back(bytes);
    if (bytes == flags.max_bytes) break;
    bytes = flags.step_factor > 1 ? bytes * flags.step_factor
                                  : bytes + flags.step_bytes;
  }
  return sizes;
}

std::string HelpText() {
  return absl::StrCat(
      R"(comm_bench measures collectives, with the flags and the table of nccl-tests.

  comm_bench [--world N] ...            starts N ranks on this machine
  comm_bench --rank R --world_size N --address HOST:PORT ...
                                        is rank R of a world; ADDRESS is rank 0's
  comm_bench --plot RUN.json... --svg FILE
                                        draws what -J wrote

  --world N            1 to )",
      kMaxWorld, "; ", kDefaultWorld, R"( if not given
  --collective NAMES   one, several with commas, or all; all_reduce if not given
  -b,--minbytes SIZE   4, 64K, 16MiB, 1G; 32M if not given
  -e,--maxbytes SIZE   32M if not given
  -i,--stepbytes SIZE  from size to size; 1M if not given
  -f,--stepfactor N    from size to size, in place of -i
  -n,--iters N         timed calls of each size; 20 if not given; auto: as many as
                       fit into a quarter second, 3 to 1000
  -w,--warmup_iters N  calls before them, of each size; 5 if not given
  -c,--check N         calls whose results are checked; 1 if not given, 0 for none
  -o,--op OP           sum, prod, min, max, avg, and, or, xor, user, or all; user is
                       a sum by a function of the user's
  -d,--datatype TYPE   f32, f64, f16, bf16, i8, u8, i32, i64, or all
  -r,--root RANK       of collectives that have one; 0 if not given
  -u,--unaligned 0|1   buffers at odd addresses
  -J,--output_file F   writes all figures to F (of rank 0) as JSON
  --svg FILE           draws bus bandwidth over size
  --trace FILE         every call of every rank on one time line, as JSON for
                       https://ui.perfetto.dev or chrome://tracing
  --algo NAME          for every call: auto, ring, recursive-doubling, ...
  --wire NAME          how elements of a reduction travel: data (as they are), f32
                       (of f16 and bf16), bf16 or q8_0 (of f32)
  --halves WHICH       both, out_of_place or in_place
  --explain            shows which algorithm each size gets, and measures nothing
  --help               shows this

A time is the median over the timed calls, on the rank where it is longest. Calls
follow one another at once; where some ranks could run ahead (those with a
root), a barrier that is not timed comes before each. A size is that of the larger
buffer; bus bandwidth is size over time, times 2(n-1)/n for all_reduce, (n-1)/n
where each rank has a part (1-1/n^2 for all_to_all_v), otherwise 1. ping_pong is
half a round trip between ranks 0 and 1. Sums and what arrives are exact: #wrong
counts elements on all ranks. Only where --wire bf16 or q8_0 rounds, results may
be off by as much as all roundings come to: (1+u)^(n+1)-1, with u = 1/256 of the
element, or 1/254 + 1/2048 of the largest of all for q8_0.

Collectives (n ranks):
)",
      CollectivesText(), R"(
SHOAL_RANK, SHOAL_WORLD_SIZE and SHOAL_ADDRESS may stand for the flags that join
a world. The last line is "comm_bench: OK" (exit code 0) or
"comm_bench: FAILED: why" (exit code 1); bad flags are exit code 2.
)");
}

}  // namespace shoal::comm_bench
