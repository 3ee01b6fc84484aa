#include "proxy/server/handover_channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

namespace {

constexpr uint8_t kFormatVersion = 1;

// A header: the version, the type, the number of descriptors, a zero, and the length of the content (big-endian).
constexpr size_t kMessageHeaderBytes = 8;

// An end with unread data is seen as a reset.
bool is_end(int error) { return error == EPIPE || error == ECONNRESET; }

// The error of a failed call.
absl::Status lost(std::string_view timed_out) {
  const int error = errno;
  if (is_end(error)) return absl::UnavailableError("it has ended");
  if (error == EAGAIN) return absl::UnavailableError(timed_out);
  return absl::ErrnoToStatus(error, "the connection to it failed");
}

void close_all(const std::vector<int>& fds) {
  for (const int fd : fds) ::close(fd);
}

}  // namespace

HandoverChannel::HandoverChannel(int fd) : fd_(fd) {
  const timeval timeout{kTimeoutMs / 1000, 0};
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
}

HandoverChannel::~HandoverChannel() { ::close(fd_); }

absl::Status HandoverChannel::send(HandoverType type, std::string_view content, const std::vector<int>& fds) {
  if (content.size() > kMaxContentBytes || fds.size() > kMaxFds) {
    return absl::InvalidArgumentError("the message is too large");
  }
  std::span<const int> left(fds);
  for (; left.size() > kFdsTogether; left = left.subspan(kFdsTogether)) {
    if (absl::Status sent = send_piece(HandoverType::kDescriptors, {}, left.first(kFdsTogether)); !sent.ok()) {
      return sent;
    }
  }
  return send_piece(type, content, left);
}

absl::Status HandoverChannel::send_piece(HandoverType type, std::string_view content, std::span<const int> fds) {
  std::array<uint8_t, kMessageHeaderBytes> header{kFormatVersion, static_cast<uint8_t>(type),
                                                  static_cast<uint8_t>(fds.size())};
  for (size_t i = 0; i < 4; ++i) header[4 + i] = static_cast<uint8_t>(content.size() >> 8 * (3 - i));
  std::array<iovec, 2> parts{iovec{header.data(), header.size()},
                             iovec{const_cast<char*>(content.data()), content.size()}};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kFdsTogether * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  for (size_t left = header.size() + content.size(); left > 0;) {
    const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return lost("it takes no data");
    message.msg_control = nullptr;  // The descriptors went with the first byte.
    message.msg_controllen = 0;
    left -= static_cast<size_t>(sent);
    auto skip = static_cast<size_t>(sent);
    for (iovec& part : parts) {
      const size_t bytes = std::min(skip, part.iov_len);
      part.iov_base = static_cast<char*>(part.iov_base) + bytes;
      part.iov_len -= bytes;
      skip -= bytes;
    }
  }
  return absl::OkStatus();
}

// `fds`: receives the descriptors that arrive with the bytes. Descriptors belong to the first byte of their message,
// and the kernel does not join bytes with and without descriptors in one receive.
absl::Status HandoverChannel::read_all(uint8_t* to, size_t bytes, std::vector<int>* fds) {
  while (bytes > 0) {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kFdsTogether * sizeof(int))> control{};
    iovec part{to, bytes};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (fds) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
    }
    const ssize_t got = recvmsg(fd_, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) return absl::UnavailableError("it has ended");
    if (got < 0) return lost("it sends no data");
    for (cmsghdr* each = CMSG_FIRSTHDR(&message); fds && each; each = CMSG_NXTHDR(&message, each)) {
      if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      const size_t before = fds->size();
      fds->resize(before + count);
      std::memcpy(fds->data() + before, CMSG_DATA(each), count * sizeof(int));
    }
    if (message.msg_flags & MSG_CTRUNC) {
      return absl::ResourceExhaustedError("descriptors were lost: is the limit of open files reached?");
    }
    to += got;
    bytes -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<HandoverMessage>> HandoverChannel::receive(int timeout_ms) {
  pollfd readable{fd_, POLLIN, 0};
  if (poll(&readable, 1, timeout_ms) <= 0) return std::nullopt;
  HandoverMessage message{};
  absl::Status status = absl::OkStatus();
  do {
    status = receive_piece(message);
  } while (status.ok() && message.type == HandoverType::kDescriptors);
  if (status.ok()) return message;
  close_all(message.fds);
  return status;
}

// Adds its descriptors to those of `message`.
absl::Status HandoverChannel::receive_piece(HandoverMessage& message) {
  std::array<uint8_t, kMessageHeaderBytes> header;
  const size_t before = message.fds.size();
  absl::Status status = read_all(header.data(), header.size(), &message.fds);
  if (!status.ok()) return status;
  if (header[0] != kFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("it has another format of handing over (", header[0], ", expected ", kFormatVersion, ")"));
  }
  size_t bytes = 0;
  for (size_t i = 4; i < kMessageHeaderBytes; ++i) bytes = bytes << 8 | header[i];
  message.type = HandoverType{header[1]};
  const bool descriptors_only = message.type == HandoverType::kDescriptors;
  if (bytes > kMaxContentBytes || header[2] != message.fds.size() - before || message.fds.size() > kMaxFds ||
      (descriptors_only && (bytes > 0 || header[2] == 0))) {
    return absl::InvalidArgumentError("it has sent a malformed message");
  }
  message.content.resize(bytes);
  return read_all(message.content.data(), bytes, nullptr);
}

}  // namespace sluice
