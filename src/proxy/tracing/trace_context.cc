#include "proxy/tracing/trace_context.h"

#include <algorithm>

namespace sluice {

namespace {

bool is_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }
bool is_hex(std::string_view text) { return std::all_of(text.begin(), text.end(), is_digit); }
bool is_id(std::string_view text) { return is_hex(text) && text.find_first_not_of('0') != std::string_view::npos; }

unsigned value_of(char digit) { return static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10); }

}  // namespace

std::optional<TraceParent> TraceParent::parse(std::string_view text) {
  constexpr size_t kTrace = kTraceIdAt, kParent = kTrace + kTraceIdDigits + 1, kFlags = kParent + kParentIdDigits + 1;
  if (text.size() < kBytes || text[kTrace - 1] != '-' || text[kParent - 1] != '-' || text[kFlags - 1] != '-') {
    return std::nullopt;
  }
  const std::string_view version = text.substr(0, 2);
  if (!is_hex(version) || version == "ff") return std::nullopt;
  if (text.size() > kBytes && (version == "00" || text[kBytes] != '-')) return std::nullopt;
  const std::string_view trace_id = text.substr(kTrace, kTraceIdDigits),
                         parent_id = text.substr(kParent, kParentIdDigits);
  if (!is_id(trace_id) || !is_id(parent_id) || !is_hex(text.substr(kFlags, kFlagDigits))) return std::nullopt;
  TraceParent parsed;
  std::copy(trace_id.begin(), trace_id.end(), parsed.trace_id.begin());
  std::copy(parent_id.begin(), parent_id.end(), parsed.parent_id.begin());
  parsed.sampled = (value_of(text[kFlags + 1]) & 1) != 0;
  return parsed;
}

TraceParent::Text TraceParent::text() const {
  Text text;
  char* at = text.data();
  const auto add = [&](std::string_view part) { at = std::copy(part.begin(), part.end(), at); };
  add("00-");
  add({trace_id.data(), trace_id.size()});
  add("-");
  add({parent_id.data(), parent_id.size()});
  add(sampled ? "-01" : "-00");
  return text;
}

}  // namespace sluice
