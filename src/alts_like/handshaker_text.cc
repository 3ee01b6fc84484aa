#include "alts_like/handshaker_text.h"

#include <algorithm>
#include <iterator>

namespace sluice {

namespace {

bool is_printable(char c) { return c >= ' ' && c <= '~'; }

// Indexed by status code.
constexpr std::string_view kCodes[] = {
    "OK",        "CANCELLED",       "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS",  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",    "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED",
};

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) {
  std::string result(text.substr(0, max_bytes));
  for (char& c : result) c = is_printable(c) ? c : '?';
  return result;
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return is_printable(c); });
}

std::string grpc_code_name(uint32_t code) {
  return code < std::size(kCodes) ? std::string(kCodes[code]) : std::to_string(code);
}

}  // namespace sluice
