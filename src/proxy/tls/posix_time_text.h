#pragma once

#include <openssl/posix_time.h>
#include <time.h>

#include <array>
#include <cstdint>
#include <string>

namespace sluice {

/// Formats seconds since 1970 as `2026-11-22 22:39:52 UTC`.
inline std::string posix_time_text(int64_t seconds) {
  tm parts{};
  std::array<char, 64> text;
  if (!OPENSSL_posix_to_tm(seconds, &parts)) return "a time out of range";
  return {text.data(), strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

}  // namespace sluice
