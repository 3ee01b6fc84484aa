// Reads a TLS ClientHello without terminating TLS, to choose a route by server name or application protocol.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "sluice/buffer.h"

namespace sluice {

/// Bound on a ClientHello including its record headers. It is ours; the protocol's own bound is 16 MiB. A post-quantum
/// hello has 1.4 to 1.9 KiB, and a connection that has no route yet should not pin more than one record.
inline constexpr size_t kMaxClientHelloBytes = size_t{16} * 1024;

/// Longest host name, without a trailing dot (RFC 1035 section 2.3.4).
inline constexpr size_t kMaxServerNameBytes = 253;

/// Bound on the ALPN names of one hello, with a length byte for each. It is ours; browsers offer 12 bytes.
inline constexpr size_t kMaxAlpnBytes = 256;

/// What the received bytes are.
enum class HelloStatus : uint8_t {
  kNeedMore,   ///< A valid beginning of a hello.
  kComplete,   ///< A whole hello.
  kNotTls,     ///< The first two bytes do not begin a TLS handshake record. Includes SSL 2.0 hellos.
  kMalformed,  ///< A TLS record, but not a hello that RFC 8446 and RFC 6066 allow.
  kTooLarge,   ///< Exceeds kMaxClientHelloBytes or kMaxAlpnBytes.
};

struct HelloResult {
  HelloStatus status;
  /// kNeedMore: the size that the buffer must reach before the hello can be complete, always more than its present
  /// size. kComplete: the offset where the hello's last record ends. Otherwise 0.
  size_t bytes;
};

/// The application protocols that a client offers, in its order of preference (RFC 7301 section 3.1), without GREASE
/// values (RFC 8701). A value type that owns its bytes.
///
///     for (std::string_view protocol : hello.alpn) log(protocol);
class AlpnList {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = std::string_view;

    Iterator() = default;
    explicit Iterator(const char* at) : at_(at) {}
    std::string_view operator*() const { return {at_ + 1, static_cast<unsigned char>(*at_)}; }
    Iterator& operator++() {
      at_ += 1 + static_cast<unsigned char>(*at_);
      return *this;
    }
    Iterator operator++(int) {
      const Iterator old = *this;
      ++*this;
      return old;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const char* at_ = nullptr;  // The length byte before a name.
  };

  Iterator begin() const { return Iterator(bytes_.data()); }
  Iterator end() const { return Iterator(bytes_.data() + size_); }
  bool empty() const { return size_ == 0; }
  bool contains(std::string_view protocol) const;

  /// Adds a name of `name_bytes` and returns where the caller must write it at once. Null, with the list unchanged, if
  /// the list would exceed kMaxAlpnBytes.
  char* add(uint8_t name_bytes);
  /// Removes the last name. Precondition: `name_bytes` is its size.
  void drop_last(uint8_t name_bytes) { size_ = static_cast<uint16_t>(size_ - name_bytes - 1); }

 private:
  std::array<char, kMaxAlpnBytes> bytes_{};
  uint16_t size_ = 0;
};

/// The contents of a ClientHello that matter for routing and logs. A value type that owns its bytes.
struct ClientHello {
  /// A syntactically valid host name, in lower case and without a trailing dot. Empty when the client sent no name, or
  /// sent an IP address, which RFC 6066 section 3 forbids but which does no harm.
  std::string_view server_name() const { return {server_name_bytes.data(), server_name_size}; }

  AlpnList alpn;
  /// The highest TLS version offered, as on the wire: 0x0303 is TLS 1.2, 0x0304 TLS 1.3. Drafts and GREASE do not
  /// count; 0 if the client offers nothing else.
  uint16_t highest_version = 0;
  /// Whether there is an encrypted_client_hello extension (RFC 9849). If so, server_name() is the public name, unless
  /// the extension is GREASE; an intermediary cannot tell the two apart.
  bool has_ech = false;

  std::array<char, kMaxServerNameBytes> server_name_bytes{};
  uint8_t server_name_size = 0;
};

/// Reads the ClientHello at the beginning of `buffer`, which may be split anywhere across windows and TLS records. The
/// buffer is not changed. `hello` is meaningful only after kComplete.
///
/// A status other than kNeedMore does not change when more bytes follow. After kNeedMore, call again only when the
/// buffer has `HelloResult::bytes`. A hello then costs a few calls and one parse, however slowly it drips in and
/// however small its records are: each wait is for the whole rest of the message, so the rest shrinks by a constant
/// factor. kNotTls and kMalformed are found no later than at that size.
///
///     ClientHello hello;
///     const HelloResult result = parse_client_hello(received, hello);
///     if (result.status == HelloStatus::kNeedMore) return wait_for(result.bytes);
///     if (result.status == HelloStatus::kComplete) route(hello.server_name());
HelloResult parse_client_hello(const Buffer& buffer, ClientHello& hello);

}  // namespace sluice
