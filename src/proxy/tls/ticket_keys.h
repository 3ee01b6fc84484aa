#pragma once

#include <openssl/base.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "alts_like/record_state.h"

namespace sluice {

/// The keys that seal session tickets (RFC 5077 section 4): either random ones, which are renewed every day, or keys
/// from files, which several processes and machines can share. Thread-safe: all workers use one object.
class TicketKeys {
 public:
  /// The size of a key file: 16 bytes of name, 32 of HMAC key, 32 of AES key, as in nginx and Envoy.
  static constexpr size_t kFileBytes = 80;

  /// Makes random keys. The two keys before the current one still open tickets, so a ticket is valid for at least two
  /// days.
  TicketKeys();
  /// Reads keys from files. The first key seals; all keys open.
  static absl::StatusOr<std::unique_ptr<TicketKeys>> read(const std::vector<std::string>& files);
  ~TicketKeys();
  TicketKeys(const TicketKeys&) = delete;
  TicketKeys& operator=(const TicketKeys&) = delete;

  /// For SSL_CTX_set_tlsext_ticket_key_cb: sets up the contexts to seal a ticket, and writes `name` and `iv`.
  int seal(uint8_t* name, uint8_t* iv, EVP_CIPHER_CTX* cipher, HMAC_CTX* hmac);
  /// For SSL_CTX_set_tlsext_ticket_key_cb: sets up the contexts to open a ticket with the key called `name`. 0: there
  /// is no such key. 2: the client should get a new ticket.
  int open(const uint8_t* name, const uint8_t* iv, EVP_CIPHER_CTX* cipher, HMAC_CTX* hmac);

  /// Appends random keys and their age for the process that replaces this one.
  void write(StateWriter& out);
  /// Continues with the keys that another process of this machine has written. False if they are malformed.
  bool take_over(StateReader& in);

  /// For tests: makes the current random key older by `seconds`.
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
  std::vector<Key> keys_;  // The first key seals.
  const bool renewed_;     // Whether the keys are random ones, which are renewed.
  int64_t made_s_ = 0;     // When the first key was made, by the clock of the machine.
};

}  // namespace sluice
