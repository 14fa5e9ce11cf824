// SPDX-License-Identifier: Apache-2.0

#include "shoal/comm/tcp_link.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "shoal/base/mutex.h"
#include "shoal/base/status_macros.h"
#include "shoal/comm/fork_guard.h"
#include "shoal/comm/link.h"
#include "shoal/comm/monotonic_clock.h"
#include "shoal/comm/tcp_address.h"
#include "shoal/comm/tcp_socket.h"

namespace shoal::internal {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

// A system call that signals interrupt again and again gives up as if it had
// blocked; the caller tries again anyway.
constexpr int kInterruptedTries = 8;

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

}  // namespace

struct TcpLinkGroup::Impl {
  explicit Impl(TcpLinkGroupOptions given) : options(std::move(given)) {}

  const TcpLinkGroupOptions options;
  // Asio enters every socket into its context's epoll set. Nobody runs this
  // one, so that arriving data wakes no thread but the one that waits for it.
  asio::io_context idle{1};
  Mutex mutex;
  std::vector<GuardedDescriptor> closing ABSL_GUARDED_BY(mutex);
  bool first_close_told ABSL_GUARDED_BY(mutex) = false;
};

class TcpLinkGroup::TcpLink final : public Link {
 public:
  TcpLink(std::shared_ptr<TcpLinkGroup> group, asio::ip::tcp::socket socket)
      : group_(std::move(group)), socket_(std::move(socket)) {}

  ~TcpLink() override {
    ErrorCode error;
    const int descriptor = socket_.release(error);
    group_->TakeBack(GuardedDescriptor::Reclaim(descriptor));
  }

  LinkResult TryWrite(absl::Span<const struct iovec> pieces) override {
    if (write_ended_) return {LinkState::kEnded, 0};
    return Try(&write_ended_, [&](ErrorCode& error) {
      return pieces.size() == 1
                 ? socket_.write_some(
                       asio::const_buffer(pieces[0].iov_base,
                                          pieces[0].iov_len),
                       error)
                 : socket_.write_some(BufferView<asio::const_buffer>(pieces),
                                      error);
    });
  }

  LinkResult TryRead(absl::Span<const struct iovec> pieces) override {
    if (read_ended_) return {LinkState::kEnded, 0};
    return Try(&read_ended_, [&](ErrorCode& error) {
      return pieces.size() == 1
                 ? socket_.read_some(
                       asio::mutable_buffer(pieces[0].iov_base,
                                            pieces[0].iov_len),
                       error)
                 : socket_.read_some(BufferView<asio::mutable_buffer>(pieces),
                                     error);
    });
  }

  void ShutdownWrite() override {
    ErrorCode ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    write_ended_ = true;
  }

  int descriptor() const override {
    // Asio's accessor is not const, though it changes nothing.
    return const_cast<asio::ip::tcp::socket&>(socket_).native_handle();
  }

  std::string end_reason() const override { return end_reason_; }

 private:
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

  const std::shared_ptr<TcpLinkGroup> group_;
  asio::ip::tcp::socket socket_;
  bool write_ended_ = false;
  bool read_ended_ = false;
  std::string end_reason_;
};

absl::StatusOr<std::shared_ptr<TcpLinkGroup>> TcpLinkGroup::Create(
    TcpLinkGroupOptions options) {
  try {
    return std::shared_ptr<TcpLinkGroup>(
        new TcpLinkGroup(std::make_unique<Impl>(std::move(options))));
  } catch (const std::exception& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot make the links of a communicator: ",
                     error.what()));
  }
}

TcpLinkGroup::TcpLinkGroup(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

TcpLinkGroup::~TcpLinkGroup() {
  MutexLock lock(&impl_->mutex);
  const TcpLinkGroupOptions& options = impl_->options;
  if (options.should_drain && !options.should_drain()) return;
  DrainAndClose(std::move(impl_->closing),
                MonotonicNow() + options.close_timeout);
}

absl::StatusOr<std::unique_ptr<Link>> TcpLinkGroup::MakeLink(
    GuardedDescriptor socket) {
  SHOAL_ASSIGN_OR_RETURN(const SocketAddress local,
                         LocalAddress(socket.get()));
  asio::ip::tcp::socket asio_socket(impl_->idle);
  ErrorCode error;
  asio_socket.assign(local.family() == AF_INET ? asio::ip::tcp::v4()
                                               : asio::ip::tcp::v6(),
                     socket.get(), error);
  if (!error) {
    static_cast<void>(socket.Lend());
    asio_socket.non_blocking(true, error);
  }
  // From here on the link gives the socket back, whatever happens.
  if (asio_socket.is_open()) {
    auto link = std::make_unique<TcpLink>(shared_from_this(),
                                          std::move(asio_socket));
    if (!error) return std::unique_ptr<Link>(std::move(link));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "cannot make a link of a socket at ", local.ToString(), ": ",
      error.message()));
}

void TcpLinkGroup::TakeBack(GuardedDescriptor socket) {
  bool first = false;
  {
    MutexLock lock(&impl_->mutex);
    first = !std::exchange(impl_->first_close_told, true);
  }
  if (first && impl_->options.on_first_close) impl_->options.on_first_close();
  ::shutdown(socket.get(), SHUT_WR);
  MutexLock lock(&impl_->mutex);
  impl_->closing.push_back(std::move(socket));
}

}  // namespace shoal::internal
