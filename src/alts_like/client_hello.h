// The TLS ClientHello, read without terminating TLS: what is needed to choose a route by server name or protocol.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "buffer/buffer.h"

namespace sluice {

/// Bound on a ClientHello with the headers of its records. Ours, not the protocol's (whose bound is 16 MiB): a
/// post-quantum hello has 1.4 to 1.9 KiB, and a connection that was not routed yet should not pin more than one record.
inline constexpr size_t kMaxClientHelloBytes = size_t{16} * 1024;

/// Longest host name, without a dot at its end (RFC 1035 section 2.3.4).
inline constexpr size_t kMaxServerNameBytes = 253;

/// Bound on the ALPN names of one hello, with a byte of length for each. Ours: browsers offer 12 bytes.
inline constexpr size_t kMaxAlpnBytes = 256;

/// What the bytes so far are.
enum class HelloStatus : uint8_t {
  kNeedMore,   ///< The beginning of a hello, as far as one can tell.
  kComplete,   ///< A whole hello.
  kNotTls,     ///< The first two bytes are not those of a TLS handshake record (an SSL 2.0 hello is not either).
  kMalformed,  ///< A TLS record, but no hello that RFC 8446 and RFC 6066 allow.
  kTooLarge,   ///< Beyond kMaxClientHelloBytes or kMaxAlpnBytes.
};

struct HelloResult {
  HelloStatus status;
  /// kNeedMore: the size that the buffer must have before the hello can possibly be complete, always more than it has.
  /// kComplete: where the hello's last record ends. Otherwise 0.
  size_t bytes;
};

/// The application protocols that a client offers, in its order of preference (RFC 7301 section 3.1), without the
/// reserved ones that only test tolerance (RFC 8701). A value that holds its bytes itself.
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
    const char* at_ = nullptr;  // The byte of length before a name.
  };

  Iterator begin() const { return Iterator(bytes_.data()); }
  Iterator end() const { return Iterator(bytes_.data() + size_); }
  bool empty() const { return size_ == 0; }
  bool contains(std::string_view protocol) const;

  /// Room for one more name of `name_bytes`, to be written by the caller at once; null, and nothing changed, beyond
  /// kMaxAlpnBytes.
  char* add(uint8_t name_bytes);
  /// Takes the name that was added last away. Precondition: `name_bytes` is its size.
  void drop_last(uint8_t name_bytes) { size_ = static_cast<uint16_t>(size_ - name_bytes - 1); }

 private:
  std::array<char, kMaxAlpnBytes> bytes_{};
  uint16_t size_ = 0;
};

/// What a ClientHello says that matters for routing and logs. A value that holds its bytes itself.
struct ClientHello {
  /// In lower case, without a dot at its end; a syntactically valid host name. Empty when the client sent none, or an
  /// IP address, which is not allowed there but harmless (RFC 6066 section 3).
  std::string_view server_name() const { return {server_name_bytes.data(), server_name_size}; }

  AlpnList alpn;
  /// The highest TLS version offered as on the wire: 0x0303 is TLS 1.2, 0x0304 TLS 1.3. Drafts and GREASE do not count;
  /// 0 when nothing is left.
  uint16_t highest_version = 0;
  /// There is an encrypted_client_hello extension (RFC 9849): server_name() is then the public name, unless the
  /// extension is only GREASE, which nobody on the way can tell.
  bool has_ech = false;

  std::array<char, kMaxServerNameBytes> server_name_bytes{};
  uint8_t server_name_size = 0;
};

/// Reads the ClientHello at the beginning of `buffer`, which may be split anywhere over windows and over TLS records.
/// Nothing is taken from the buffer; `hello` has meaningful contents after kComplete only.
///
/// A verdict other than kNeedMore does not change when more bytes follow. Call again only when the buffer has
/// `HelloResult::bytes`: then a hello costs a few calls and one parse, however slowly it drips in, and however small
/// the records are that it was cut into (each wait is for all of the message that is left, so that what is left shrinks
/// by a constant factor). kNotTls and kMalformed are found no later than that.
///
///     ClientHello hello;
///     const HelloResult result = parse_client_hello(received, hello);
///     if (result.status == HelloStatus::kNeedMore) return wait_for(result.bytes);
///     if (result.status == HelloStatus::kComplete) route(hello.server_name());
HelloResult parse_client_hello(const Buffer& buffer, ClientHello& hello);

}  // namespace sluice
