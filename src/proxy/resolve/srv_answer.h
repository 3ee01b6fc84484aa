// SRV records (RFC 2782) out of a name server's answer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

struct SrvRecord {
  uint16_t priority = 0;  ///< The lowest is used as long as it can be.
  uint16_t weight = 0;
  uint16_t port = 0;
  std::string target;

  bool operator==(const SrvRecord&) const = default;
};

struct SrvAnswer {
  std::vector<SrvRecord> records;  ///< Without those that say that there is no such service (the target is the root).
  uint32_t ttl_s = 0;              ///< The least of all records in the answer.
};

/// An answer of no more than so many records is read; the rest is left out.
inline constexpr size_t kMaxSrvRecords = 1024;

/// Reads a message (RFC 1035 section 4.1) with its records of class IN, aliases included. Nothing if it is malformed.
std::optional<SrvAnswer> parse_srv_answer(std::span<const uint8_t> message);

}  // namespace sluice
