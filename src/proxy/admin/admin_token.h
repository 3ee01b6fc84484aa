#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proxy/http/message/fields.h"

namespace sluice {

/// The token that requests to the admin listener must carry. Keeps only its digest.
class AdminToken {
 public:
  static constexpr size_t kMinBytes = 16, kMaxBytes = 512;

  /// Reads the token from a file: one line of printable characters without blanks. The error is for the user. Blocks.
  static absl::StatusOr<AdminToken> read(const std::string& path);
  explicit AdminToken(std::string_view token);

  /// Whether a request with these fields carries it, as `Authorization: Bearer TOKEN`. Takes the same time whatever
  /// part of it is right. A field that occurs twice counts as none.
  bool admits(const Fields& fields) const;

 private:
  std::array<uint8_t, 32> digest_{};  // SHA-256.
};

}  // namespace sluice
