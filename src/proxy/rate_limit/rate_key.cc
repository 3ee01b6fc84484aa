#include "proxy/rate_limit/rate_key.h"

#include <openssl/rand.h>
#include <openssl/siphash.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <span>

#include "proxy/common/siphash.h"
#include "proxy/http/message/named_values.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// The parts of a key. They are numbers, so that the hash of a value of one kind never stands for another kind.
enum class RatePart : uint64_t {
  kConnection = 1,
  kSource,
  kNoSource,
  kRoute,
  kHost,
  kSni,
  kPeer,
  kHeader,
  kCookie,
  kClaim,
  kHandshake,
  kLacks = 16,  // Added to the part that the request lacks.
};

uint64_t rate_hash(const RateSecret& secret, std::string_view text) {
  return SIPHASH_24(secret.words, reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

// Collects the parts of a key: two words for each, of which there are at most nine.
class RateKeyParts {
 public:
  explicit RateKeyParts(const RateSecret& secret) : secret_(secret) {}

  void add(RatePart part, uint64_t value) {
    SLUICE_DCHECK(count_ + 2 <= words_.size());
    words_[count_++] = static_cast<uint64_t>(part);
    words_[count_++] = value;
  }
  /// An empty text counts as lacking.
  void add_text(RatePart part, std::string_view text) {
    if (!text.empty()) return add(part, rate_hash(secret_, text));
    add(static_cast<RatePart>(static_cast<uint64_t>(part) + static_cast<uint64_t>(RatePart::kLacks)), 0);
    lacks_ = true;
  }
  void add_source(const Source& source) {
    uint64_t value = 0;
    static_assert(sizeof value == sizeof source.bytes);
    std::memcpy(&value, source.bytes.data(), sizeof value);
    add(RatePart::kSource, value);
    words_[count_ - 2] |= source.ipv6 ? uint64_t{1} << 32 : 0;
  }
  bool lacks() const { return lacks_; }
  uint64_t hash() const { return siphash_24(secret_.words, std::span(words_).first(count_)); }

 private:
  const RateSecret& secret_;
  std::array<uint64_t, 18> words_;
  size_t count_ = 0;
  bool lacks_ = false;
};

}  // namespace

const RateSecret& RateSecret::of_process() {
  static const RateSecret secret = [] {
    RateSecret made{};
    SLUICE_CHECK(RAND_bytes(reinterpret_cast<uint8_t*>(made.words), sizeof made.words) == 1);
    return made;
  }();
  return secret;
}

uint64_t rate_key_of_route(const RateSecret& secret, std::string_view listener, std::string_view route,
                           uint32_t index) {
  RateKeyParts parts(secret);
  parts.add_text(RatePart::kRoute, listener);
  route.empty() ? parts.add(RatePart::kRoute, index) : parts.add_text(RatePart::kHost, route);
  return parts.hash();
}

uint64_t rate_key_of_request(const RateSecret& secret, const config::RateKey& key, const RateKeyPlace& place,
                             const RequestAttributes& facts) {
  RateKeyParts parts(secret);
  if (key.route) parts.add(RatePart::kRoute, place.route);
  if (key.host) parts.add_text(RatePart::kHost, facts.host);
  if (key.sni) {
    parts.add_text(RatePart::kSni, facts.agreed ? std::string_view(facts.agreed->server_name) : std::string_view());
  }
  if (key.peer) parts.add_text(RatePart::kPeer, facts.peer());
  if (const std::string& name = key.header.text(); !name.empty()) {
    parts.add_text(RatePart::kHeader, facts.fields->value(name));
  }
  if (!key.cookie.empty()) parts.add_text(RatePart::kCookie, cookie_value(*facts.fields, key.cookie));
  if (!key.jwt_claim.empty()) parts.add_text(RatePart::kClaim, facts.fields->value(place.claim_header));
  if (key.source || parts.lacks()) {
    Source source;
    if (facts.client && Source::from(facts.client->bytes(), source)) {
      parts.add_source(source);
    } else {
      parts.add(RatePart::kNoSource, 0);
    }
  }
  return parts.hash();
}

uint64_t rate_key_of_handshake(const RateSecret& secret, const config::RateKey& key, const Source* source,
                               std::string_view server_name) {
  RateKeyParts parts(secret);
  parts.add(RatePart::kHandshake, 0);
  if (key.sni) parts.add_text(RatePart::kSni, server_name);
  if (key.source || parts.lacks()) source ? parts.add_source(*source) : parts.add(RatePart::kNoSource, 0);
  return parts.hash();
}

uint64_t rate_key_of_connection(const RateSecret& secret, const Source& source) {
  RateKeyParts parts(secret);
  parts.add(RatePart::kConnection, 0);
  parts.add_source(source);
  return parts.hash();
}

}  // namespace sluice
