#pragma once

#include <openssl/base.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

/// The keys that session tickets are sealed with (RFC 5077 section 4): either ours, made at random and renewed every
/// day, or those of files, which several processes and machines can share. Used by all workers.
class TicketKeys {
 public:
  /// A file holds these: 16 bytes of name, 32 of HMAC key, 32 of AES key. So do nginx's and Envoy's.
  static constexpr size_t kFileBytes = 80;

  /// Keys of our own. The two before the present one still open: a ticket is for two days at the least.
  TicketKeys();
  /// From files: the first seals, all open.
  static absl::StatusOr<std::unique_ptr<TicketKeys>> read(const std::vector<std::string>& files);
  ~TicketKeys();
  TicketKeys(const TicketKeys&) = delete;
  TicketKeys& operator=(const TicketKeys&) = delete;

  /// For SSL_CTX_set_tlsext_ticket_key_cb: sets the contexts up to seal a ticket, `name` and `iv` being written,
  int seal(uint8_t* name, uint8_t* iv, EVP_CIPHER_CTX* cipher, HMAC_CTX* hmac);
  /// or to open one, with the key that `name` names. 0: there is no such key. 2: a new ticket is due.
  int open(const uint8_t* name, const uint8_t* iv, EVP_CIPHER_CTX* cipher, HMAC_CTX* hmac);

  /// For tests: lets the present key of our own be so much older.
  void age(int64_t seconds);

 private:
  struct Key {
    std::array<uint8_t, 16> name;
    std::array<uint8_t, 32> hmac;
    std::array<uint8_t, 32> aes;
  };
  explicit TicketKeys(std::vector<Key> keys) : keys_(std::move(keys)), renewed_(false) {}
  void renew_if_due();

  std::mutex mutex_;
  std::vector<Key> keys_;  // The first seals.
  const bool renewed_;     // By us.
  int64_t made_s_ = 0;     // The first.
};

}  // namespace sluice
