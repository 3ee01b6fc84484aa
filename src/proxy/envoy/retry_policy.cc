#include "proxy/envoy/retry_policy.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proxy/common/suggestions.h"
#include "proxy/envoy/values.h"

namespace sluice::envoy {
namespace {

constexpr uint64_t kMostAttempts = 10;

void add_reason(std::string_view reason, std::vector<std::string>& on) {
  if (std::find(on.begin(), on.end(), reason) == on.end()) on.emplace_back(reason);
}

// Envoy's words for failures, and what they comprise.
bool add_reasons(std::string_view word, std::vector<std::string>& on) {
  const auto add = [&](std::initializer_list<std::string_view> reasons) {
    for (const std::string_view reason : reasons) add_reason(reason, on);
    return true;
  };
  if (word == "5xx") return add({"5xx", "connect_failure", "refused", "reset"});
  if (word == "gateway-error") return add({"gateway_error", "connect_failure", "refused", "reset"});
  if (word == "reset") return add({"connect_failure", "refused", "reset"});
  if (word == "connect-failure" || word == "reset-before-request") return add({"connect_failure"});
  if (word == "refused-stream" || word == "http3-post-connect-failure") return add({"refused"});
  if (word == "unavailable") return add({"grpc_unavailable"});
  if (word == "resource-exhausted") return add({"grpc_resource_exhausted"});
  return false;
}

std::vector<std::string> retriable_codes(const Message& policy) {
  std::vector<std::string> codes;
  for (const std::string& code : policy.texts("retriable_status_codes")) {
    if (code.size() == 3 && (code.starts_with('4') || code.starts_with('5'))) {
      codes.push_back(code);
    } else {
      policy.refuse("retriable_status_codes",
                    absl::StrCat("there are retries of 4xx and 5xx only, not of ", config::in_quotes(code)));
    }
  }
  return codes;
}

void put_attempts(const Message& policy, config::Node& out) {
  const uint64_t attempts = policy.number("num_retries").value_or(1) + 1;
  if (attempts > kMostAttempts)
    policy.ignore("num_retries", absl::StrCat("there are at most ", kMostAttempts, " attempts"));
  put(out, "attempts", absl::StrCat(std::min(attempts, kMostAttempts)));
}

void put_waits(const Message& policy, config::Node& out) {
  const Message backoff = policy.sub("retry_back_off");
  if (!backoff) return;
  const auto base = backoff.duration("base_interval").value_or(std::chrono::milliseconds(25));
  const auto most = backoff.duration("max_interval").value_or(base * 10);
  put(out, "backoff", duration_text(base));
  put(out, "max_backoff", duration_text(std::max(base, most)));
}

}  // namespace

config::Node retry_node(const Message& policy) {
  config::Node out = map_node();
  std::vector<std::string> on, codes;
  const std::string reasons = policy.text("retry_on");
  for (const std::string_view each : absl::StrSplit(reasons, ',', absl::SkipWhitespace())) {
    const std::string_view word = absl::StripAsciiWhitespace(each);
    if (word == "retriable-status-codes") {
      codes = retriable_codes(policy);
    } else if (word == "cancelled") {
      policy.ignore("retry_on", "responses with the gRPC status `cancelled` are not retried");
    } else if (!add_reasons(word, on)) {
      policy.refuse("retry_on", absl::StrCat("there is no counterpart of ", config::in_quotes(word)));
    }
  }
  if (on.empty() && codes.empty()) return out;
  const auto try_timeout = policy.duration("per_try_timeout");
  const bool bounded = try_timeout && try_timeout->count() > 0;
  if (bounded) add_reason("timeout", on);
  if (!on.empty()) put(out, "on", list_node(on));
  put_words(out, "retriable_status_codes", codes);
  put_attempts(policy, out);
  if (bounded) put(out, "try_timeout", duration_text(*try_timeout));
  put_waits(policy, out);
  return out;
}

}  // namespace sluice::envoy
