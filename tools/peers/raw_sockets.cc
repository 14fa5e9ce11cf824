// SPDX-License-Identifier: Apache-2.0
//
// What the kernel's sockets allow: exchanges with nothing around them.
//
// One hop: every rank sends its whole vector to every other one, with a 64-byte
// header in the same write, and adds what comes. Two phases (two ranks): each
// rank owns a half; what comes of it is added slice by slice while it is still
// in the cache, and a slice that is done goes back at once. Everything is
// non-blocking, with both directions in flight, on one thread, and without a
// copy beyond the kernel's. Waiting is trying again, at once where every rank
// has a core and after giving it up otherwise. Starts its ranks itself.

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "shoal/tools/peers/peer_sweep.h"

// The fastest sums that the machine has, chosen when the program starts.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define SHOAL_FASTEST \
  __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SHOAL_FASTEST
#endif

namespace shoal::peers {
namespace {

constexpr std::size_t kHeaderBytes = 64;
constexpr std::int64_t kOneHopMaxBytes = 4 << 20;
constexpr std::int64_t kTwoPhasesMinBytes = 32 << 10;

SHOAL_FASTEST void Add(float* __restrict to, const float* __restrict from,
                       std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}

[[noreturn]] void Die(const char* what) {
  std::cerr << "raw_sockets: " << what << ": " << strerror(errno) << std::endl;
  _exit(1);
}

// Bytes of a send buffer; the kernel takes twice as many. What is in flight is
// then in the cache still when the receiver comes to it; left to the kernel,
// the buffer grows to megabytes. Measured: better from 1 MiB on, not below.
constexpr int kBounded = 128 * 1024;
constexpr int kLeftToTheKernel = 0;
constexpr std::size_t kBoundedFromBytes = 1 << 20;

// Two ends of a connection over loopback.
std::pair<int, int> ConnectedPair(int send_buffer) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || bind(listener, generic, length) != 0 ||
      listen(listener, 1) != 0 ||
      getsockname(listener, generic, &length) != 0) {
    Die("cannot listen");
  }
  const int one = socket(AF_INET, SOCK_STREAM, 0);
  if (one < 0 || connect(one, generic, length) != 0) Die("cannot connect");
  const int other = accept(listener, nullptr, nullptr);
  if (other < 0) Die("cannot accept");
  close(listener);
  for (const int end : {one, other}) {
    const int on = 1;
    setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(end, F_SETFL, O_NONBLOCK);
    if (send_buffer == kLeftToTheKernel) continue;
    setsockopt(end, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
  }
  return {one, other};
}

// Bytes to send or to receive, in order, over one connection.
class Stream {
 public:
  void Append(void* data, std::size_t bytes) {
    if (bytes > 0) pieces_.push_back({data, bytes});
  }
  bool done() const { return next_ == pieces_.size(); }
  // Bytes that have gone through.
  std::size_t moved() const { return moved_; }

  // Moves what can be moved without waiting, but nothing beyond `limit` bytes
  // altogether. Whether anything was moved.
  template <typename Move>
  bool Try(std::size_t limit, const Move& move) {
    if (done() || moved_ >= limit) return false;
    iovec now[2];
    int count = 0;
    std::size_t room = limit - moved_;
    for (std::size_t i = next_; i < pieces_.size() && count < 2 && room > 0;
         ++i) {
      now[count] = pieces_[i];
      now[count].iov_len = std::min(now[count].iov_len, room);
      room -= now[count++].iov_len;
    }
    const ssize_t bytes = move(now, count);
    if (bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (bytes <= 0) Die("a connection broke");
    Advance(static_cast<std::size_t>(bytes));
    return true;
  }

 private:
  void Advance(std::size_t bytes) {
    moved_ += bytes;
    while (bytes > 0) {
      iovec& piece = pieces_[next_];
      const std::size_t part = std::min(bytes, piece.iov_len);
      piece.iov_base = static_cast<char*>(piece.iov_base) + part;
      piece.iov_len -= part;
      bytes -= part;
      if (piece.iov_len == 0) ++next_;
    }
  }

  std::vector<iovec> pieces_;
  std::size_t next_ = 0;
  std::size_t moved_ = 0;
};

bool TrySend(int socket, Stream* stream, std::size_t limit = SIZE_MAX) {
  return stream->Try(limit, [socket](iovec* pieces, int count) {
    msghdr message = {};
    message.msg_iov = pieces;
    message.msg_iovlen = count;
    return sendmsg(socket, &message, MSG_NOSIGNAL);
  });
}

bool TryReceive(int socket, Stream* stream) {
  return stream->Try(SIZE_MAX, [socket](iovec* pieces, int count) {
    return readv(socket, pieces, count);
  });
}

class RawWorld : public PeerWorld {
 public:
  // `sockets[r]` leads to rank r.
  RawWorld(int rank, std::vector<int> sockets)
      : rank_(rank),
        sockets_(std::move(sockets)),
        yields_(sockets_.size() > std::thread::hardware_concurrency()) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(sockets_.size()); }

  double Max(double value) override {
    std::vector<double> values(size(), value);
    Exchange(&value, values.data(), sizeof value, [](int) {});
    return *std::max_element(values.begin(), values.end());
  }

  // Everyone's vector to everyone, each one added to `data` in the end.
  void OneHop(float* data, std::int64_t count) {
    scratch_.resize(count * size());
    Exchange(data, scratch_.data(), count * sizeof(float), [](int) {});
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank_) Add(data, scratch_.data() + peer * count, count);
    }
  }

  void TwoPhases(float* data, std::int64_t count, std::size_t slice_bytes);

  void PingPong(float* data, std::int64_t count) {
    const std::size_t bytes = count * sizeof(float);
    if (rank_ > 1) return;
    const int socket = sockets_[1 - rank_];
    for (int turn = 0; turn < 2; ++turn) {
      Stream stream;
      stream.Append(header_, kHeaderBytes);
      stream.Append(data, bytes);
      const bool sends = turn == rank_;
      while (!stream.done()) {
        if (!(sends ? TrySend(socket, &stream) : TryReceive(socket, &stream))) {
          Pause();
        }
      }
    }
  }

 private:
  void Pause() const {
    if (yields_) sched_yield();
  }

  // Sends `bytes` of `mine` to everyone and receives as many from each, in
  // `theirs`, by rank.
  template <typename Arrived>
  void Exchange(void* mine, void* theirs, std::size_t bytes,
                const Arrived& arrived) {
    std::vector<Stream> out(size()), in(size());
    int left = 0;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank_) continue;
      out[peer].Append(header_, kHeaderBytes);
      out[peer].Append(mine, bytes);
      in[peer].Append(received_header_, kHeaderBytes);
      in[peer].Append(static_cast<char*>(theirs) + peer * bytes, bytes);
      left += 2;
    }
    while (left > 0) {
      bool moved = false;
      for (int i = 1; i < size(); ++i) {
        const int peer = (rank_ + i) % size();
        const int socket = sockets_[peer];
        if (!out[peer].done() && TrySend(socket, &out[peer])) {
          moved = true;
          if (out[peer].done()) --left;
        }
        if (!in[peer].done() && TryReceive(socket, &in[peer])) {
          moved = true;
          if (in[peer].done()) {
            --left;
            arrived(peer);
          }
        }
      }
      if (!moved) Pause();
    }
  }

  const int rank_;
  const std::vector<int> sockets_;
  const bool yields_;
  std::vector<float> scratch_;
  char header_[kHeaderBytes] = {};
  char received_header_[kHeaderBytes] = {};
};

// Both ranks send, in this order, their header and the raw slices of the
// other's half; after raw slice k + 2 comes slice k of their own half, done.
// That leaves the other one time to add, and finds what it adds in the cache.
void RawWorld::TwoPhases(float* data, std::int64_t count,
                         std::size_t slice_bytes) {
  constexpr std::int64_t kLead = 2;
  const std::int64_t slice = slice_bytes / sizeof(float);
  const std::int64_t middle = count / 2;
  const auto half = [&](int rank) {
    return rank == 0 ? std::pair<std::int64_t, std::int64_t>{0, middle}
                     : std::pair<std::int64_t, std::int64_t>{middle, count};
  };
  const auto [own, own_end] = half(rank_);
  const auto [peers, peers_end] = half(1 - rank_);
  const auto slices = [slice](std::int64_t elements) {
    return (elements + slice - 1) / slice;
  };
  const std::int64_t own_slices = slices(own_end - own);
  const std::int64_t peers_slices = slices(peers_end - peers);
  scratch_.resize(own_end - own);

  // How many bytes may go, or have come, when slice k is done.
  Stream out, in;
  std::vector<std::size_t> may_go, have_come;
  std::size_t out_bytes = kHeaderBytes, in_bytes = kHeaderBytes;
  out.Append(header_, kHeaderBytes);
  in.Append(received_header_, kHeaderBytes);
  const auto append = [&](Stream* stream, float* start, std::int64_t begin,
                          std::int64_t end, std::int64_t k,
                          std::size_t* total) {
    const std::int64_t from = std::min(begin + k * slice, end);
    const std::int64_t to = std::min(from + slice, end);
    stream->Append(start + from, (to - from) * sizeof(float));
    *total += (to - from) * sizeof(float);
  };
  const std::int64_t turns = std::max(own_slices, peers_slices) + kLead;
  for (std::int64_t k = 0; k < turns; ++k) {
    if (k < peers_slices) {
      append(&out, data, peers, peers_end, k, &out_bytes);
    }
    if (k < own_slices) {
      append(&in, scratch_.data() - own, own, own_end, k, &in_bytes);
      have_come.push_back(in_bytes);
    }
    if (k >= kLead && k - kLead < own_slices) {
      may_go.push_back(out_bytes);
      append(&out, data, own, own_end, k - kLead, &out_bytes);
    }
    if (k >= kLead && k - kLead < peers_slices) {
      append(&in, data, peers, peers_end, k - kLead, &in_bytes);
    }
  }

  const int socket = sockets_[1 - rank_];
  std::int64_t added = 0;
  while (!out.done() || !in.done()) {
    const std::size_t limit =
        added < own_slices ? may_go[added] : std::size_t{SIZE_MAX};
    bool moved = TrySend(socket, &out, limit);
    moved |= TryReceive(socket, &in);
    while (added < own_slices && in.moved() >= have_come[added]) {
      const std::int64_t from = own + added * slice;
      Add(data + from, scratch_.data() + (from - own),
          std::min(slice, own_end - from));
      ++added;
    }
    if (!moved) Pause();
  }
}

std::vector<Variant> Variants(RawWorld* world, const std::string& collective,
                              Buffers* buffers) {
  float* data = buffers->output.data();
  const std::int64_t count = buffers->count;
  const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(float));
  if (collective == "ping_pong") {
    return {{"ping-pong", [=] { world->PingPong(data, count); }}};
  }
  std::vector<Variant> variants;
  if (bytes <= kOneHopMaxBytes) {
    variants.push_back({"one hop", [=] { world->OneHop(data, count); }});
  }
  if (bytes >= kTwoPhasesMinBytes && world->size() == 2) {
    for (const std::size_t kib : {128, 256}) {
      variants.push_back({absl::StrCat("two phases, ", kib, " KiB"),
                          [=] { world->TwoPhases(data, count, kib << 10); }});
    }
  }
  return variants;
}

// Ends of connections, by the rank that holds them and where they lead to.
using Mesh = std::vector<std::vector<int>>;

Mesh Connect(int world, int send_buffer) {
  Mesh mesh(world, std::vector<int>(world, -1));
  for (int a = 0; a < world; ++a) {
    for (int b = a + 1; b < world; ++b) {
      std::tie(mesh[a][b], mesh[b][a]) = ConnectedPair(send_buffer);
    }
  }
  return mesh;
}

// This process is `rank`: it closes what belongs to others.
std::vector<int> TakeEnds(const Mesh& mesh, int rank) {
  for (std::size_t other = 0; other < mesh.size(); ++other) {
    if (static_cast<int>(other) == rank) continue;
    for (const int socket : mesh[other]) {
      if (socket >= 0) close(socket);
    }
  }
  return mesh[rank];
}

int Main(int argc, char** argv) {
  const absl::StatusOr<Flags> flags = ParseFlags(argc, argv);
  if (!flags.ok() ||
      (flags->collective != "all_reduce" && flags->collective != "ping_pong")) {
    std::cerr << (flags.ok() ? "this driver has all_reduce and ping_pong only"
                             : flags.status().message())
              << std::endl;
    return 2;
  }
  const int world = flags->world;
  const std::vector<Mesh> meshes = {Connect(world, kLeftToTheKernel),
                                    Connect(world, kBounded)};
  return ForkRanks(world, [&](int rank) {
    std::vector<std::unique_ptr<RawWorld>> raw;
    for (const Mesh& mesh : meshes) {
      raw.push_back(std::make_unique<RawWorld>(rank, TakeEnds(mesh, rank)));
    }
    return Sweep(raw[0].get(), *flags, [&](Buffers* buffers) {
      const bool bounded = buffers->count * sizeof(float) >= kBoundedFromBytes;
      return Variants(raw[bounded ? 1 : 0].get(), flags->collective, buffers);
    });
  });
}

}  // namespace
}  // namespace shoal::peers

int main(int argc, char** argv) { return shoal::peers::Main(argc, argv); }
