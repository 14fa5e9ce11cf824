// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/tcp_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/link.h"
#include "shoal/comm/tcp_address.h"

namespace shoal::internal {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

// A system call that signals interrupt again and again gives up as if it had
// blocked; the caller tries again anyway.
constexpr int kInterruptedTries = 8;

// Between two processes of one machine the kernel's send buffer would grow to
// megabytes, which leave the cache before they are read: bounded, messages of
// megabytes are faster (docs/performance.md). It must not be much smaller:
// below a few of the loopback's segments of 64 KiB, TCP begins to wait for
// delayed acknowledgements. Between machines TCP finds its size itself.
constexpr int kSendBufferOnOneMachine = 128 * 1024;

// Up to so many bytes it is faster to copy what lies in pieces than to have the
// kernel read a list of them: a header with a small message, above all.
constexpr std::size_t kCopiedBytes = 2048;

std::size_t TotalBytes(absl::Span<const struct iovec> pieces) {
  std::size_t total = 0;
  for (const struct iovec& piece : pieces) total += piece.iov_len;
  return total;
}

absl::Span<const struct iovec> WithoutEmptyFront(
    absl::Span<const struct iovec> pieces) {
  while (pieces.size() > 1 && pieces[0].iov_len == 0) pieces.remove_prefix(1);
  return pieces;
}

// Puts `bytes` bytes at `data` where a read into `pieces` would have put them.
void Distribute(const char* data, std::size_t bytes,
                absl::Span<const struct iovec> pieces) {
  for (const struct iovec& piece : pieces) {
    const std::size_t part = std::min(bytes, piece.iov_len);
    if (part == 0) continue;
    std::memcpy(piece.iov_base, data, part);
    data += part;
    bytes -= part;
  }
}

bool OnOneMachine(SocketAddress local, SocketAddress peer) {
  local.set_port(0);
  peer.set_port(0);
  return local.ToString() == peer.ToString();
}

// Presents iovecs to Asio as a sequence of its buffers, without a copy.
template <typename AsioBuffer>
class BufferView {
 public:
  class const_iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = AsioBuffer;
    using difference_type = std::ptrdiff_t;
    using pointer = const AsioBuffer*;
    using reference = AsioBuffer;

    const_iterator() = default;
    explicit const_iterator(const struct iovec* piece) : piece_(piece) {}

    AsioBuffer operator*() const {
      return AsioBuffer(piece_->iov_base, piece_->iov_len);
    }
    const_iterator& operator++() {
      ++piece_;
      return *this;
    }
    const_iterator operator++(int) { return const_iterator(piece_++); }
    const_iterator& operator--() {
      --piece_;
      return *this;
    }
    const_iterator operator--(int) { return const_iterator(piece_--); }
    friend bool operator==(const_iterator a, const_iterator b) {
      return a.piece_ == b.piece_;
    }
    friend bool operator!=(const_iterator a, const_iterator b) {
      return a.piece_ != b.piece_;
    }

   private:
    const struct iovec* piece_ = nullptr;
  };
  using value_type = AsioBuffer;

  explicit BufferView(absl::Span<const struct iovec> pieces)
      : pieces_(pieces) {}

  const_iterator begin() const { return const_iterator(pieces_.data()); }
  const_iterator end() const {
    return const_iterator(pieces_.data() + pieces_.size());
  }

 private:
  absl::Span<const struct iovec> pieces_;
};

class TcpLink final : public Link {
 public:
  TcpLink(std::shared_ptr<asio::io_context> idle, asio::ip::tcp::socket socket)
      : idle_(std::move(idle)), socket_(std::move(socket)) {}

  ~TcpLink() override {
    ErrorCode error;
    GuardedDescriptor::Reclaim(socket_.release(error)).Close();
  }

  absl::Status BecomeNonBlocking() {
    ErrorCode error;
    socket_.non_blocking(true, error);
    if (!error) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("cannot make a socket non-blocking: ", error.message()));
  }

  LinkResult TryWrite(absl::Span<const struct iovec> pieces) override {
    if (write_ended_) return {LinkState::kEnded, 0};
    pieces = WithoutEmptyFront(pieces);
    char copy[kCopiedBytes];
    struct iovec joined = {copy, 0};
    if (pieces.size() > 1 && TotalBytes(pieces) <= kCopiedBytes) {
      for (const struct iovec& piece : pieces) {
        if (piece.iov_len == 0) continue;
        std::memcpy(copy + joined.iov_len, piece.iov_base, piece.iov_len);
        joined.iov_len += piece.iov_len;
      }
      pieces = absl::MakeConstSpan(&joined, 1);
    }
    return Try(&write_ended_, [&](ErrorCode& error) {
      return pieces.size() == 1
                 ? socket_.write_some(asio::const_buffer(pieces[0].iov_base,
                                                         pieces[0].iov_len),
                                      error)
                 : socket_.write_some(BufferView<asio::const_buffer>(pieces),
                                      error);
    });
  }

  LinkResult TryRead(absl::Span<const struct iovec> pieces) override {
    if (read_ended_) return {LinkState::kEnded, 0};
    pieces = WithoutEmptyFront(pieces);
    const std::size_t total = TotalBytes(pieces);
    if (pieces.size() > 1 && total <= kCopiedBytes) {
      char copy[kCopiedBytes];
      const LinkResult result = ReadOne(copy, total);
      Distribute(copy, result.bytes, pieces);
      return result;
    }
    if (pieces.size() == 1) return ReadOne(pieces[0].iov_base, total);
    return Try(&read_ended_, [&](ErrorCode& error) {
      return socket_.read_some(BufferView<asio::mutable_buffer>(pieces), error);
    });
  }

  void ShutdownWrite() override {
    ErrorCode ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    write_ended_ = true;
  }

  bool PeerHasEnded() const override {
    pollfd entry = {descriptor(), POLLRDHUP, 0};
    return poll(&entry, 1, 0) > 0;
  }

  int descriptor() const override {
    // Asio's accessor is not const, though it changes nothing.
    return const_cast<asio::ip::tcp::socket&>(socket_).native_handle();
  }

  std::string end_reason() const override { return end_reason_; }

 private:
  LinkResult ReadOne(void* data, std::size_t bytes) {
    return Try(&read_ended_, [&](ErrorCode& error) {
      return socket_.read_some(asio::mutable_buffer(data, bytes), error);
    });
  }

  template <typename Function>
  LinkResult Try(bool* ended, Function transfer) {
    ErrorCode error;
    for (int i = 0; i < kInterruptedTries; ++i) {
      const std::size_t bytes = transfer(error);
      if (!error) return {LinkState::kOk, bytes};
      if (error != asio::error::interrupted) break;
    }
    if (error == asio::error::would_block || error == asio::error::try_again ||
        error == asio::error::interrupted) {
      return {LinkState::kWouldBlock, 0};
    }
    *ended = true;
    if (error != asio::error::eof && end_reason_.empty()) {
      end_reason_ = error.message();
    }
    return {LinkState::kEnded, 0};
  }

  const std::shared_ptr<asio::io_context> idle_;
  asio::ip::tcp::socket socket_;
  bool write_ended_ = false;
  bool read_ended_ = false;
  std::string end_reason_;
};

}  // namespace

struct TcpLinkFactory::Impl {
  // Asio enters every socket into its context's epoll set. Nobody runs this
  // one, so that arriving data wakes no thread but the one that waits for it.
  const std::shared_ptr<asio::io_context> idle =
      std::make_shared<asio::io_context>(1);
};

absl::StatusOr<TcpLinkFactory> TcpLinkFactory::Create() {
  try {
    return TcpLinkFactory(std::make_shared<Impl>());
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot make the links of a communicator: ", error.what()));
  }
}

TcpLinkFactory::TcpLinkFactory(std::shared_ptr<const Impl> impl)
    : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<Link>> TcpLinkFactory::Make(
    GuardedDescriptor socket) const {
  SHOAL_ASSIGN_OR_RETURN(const SocketAddress local, LocalAddress(socket.get()));
  if (const auto peer = PeerAddress(socket.get());
      peer.ok() && OnOneMachine(local, *peer)) {
    // Only speed is at stake, so that a refusal is no error.
    setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferOnOneMachine,
               sizeof kSendBufferOnOneMachine);
  }
  asio::ip::tcp::socket asio_socket(*impl_->idle);
  ErrorCode error;
  asio_socket.assign(
      local.family() == AF_INET ? asio::ip::tcp::v4() : asio::ip::tcp::v6(),
      socket.get(), error);
  if (error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot make a link of the socket at ", local.ToString(),
                     ": ", error.message()));
  }
  static_cast<void>(socket.Lend());
  // From here on the link closes it.
  auto link = std::make_unique<TcpLink>(impl_->idle, std::move(asio_socket));
  SHOAL_RETURN_IF_ERROR(link->BecomeNonBlocking());
  return std::unique_ptr<Link>(std::move(link));
}

}  // namespace shoal::internal
