#include "proxy/http/proxy/phases/authorizers.h"

#include <array>
#include <charconv>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "proxy/common/log_limit.h"
#include "proxy/http/message/http_date.h"
#include "proxy/log/run_log.h"

namespace sluice {

void log_no_verdict(PhaseContext& exchange, const NoVerdict& what, bool allowed) {
  static thread_local LogLimit limit(1);
  if (!log_enabled(LogLevel::kWarning) || !log_admits(limit, exchange.now_ms())) return;
  log_line(LogLevel::kWarning,
           absl::StrCat("listener \"", exchange.attributes().listener, "\": ", what.feature, ": upstream \"",
                        what.upstream, "\" did not decide: ", what.error,
                        allowed ? ": the request goes on unchecked" : ": the client gets 503", left_out_text(limit)),
           {.upstream = what.upstream, .reason = what.error});
}

PhaseResult judge_failure(PhaseContext& exchange, HttpCounters& counters, config::OnFailure on_failure,
                          const NoVerdict& what, SideCall::Outcome outcome) {
  const bool timeout = outcome == SideCall::Outcome::kTimeout;
  const ForwardAuthResult result = timeout ? ForwardAuthResult::kTimeout : ForwardAuthResult::kFailed;
  counters.forward_auth[static_cast<size_t>(result)].add();
  const bool allow = on_failure == config::OnFailure::kAllow;
  log_no_verdict(exchange, what, allow);
  if (!allow) return PhaseResult::fail(HttpEnd::kAuthFailed);
  counters.forward_auth_unchecked.add();
  return PhaseResult::go_on();
}

void complete_other_response(ChunkPool& pool, OtherResponse& response) {
  Head& head = response.head;
  head.fields.remove("content-length");
  head.fields.remove("trailer");
  if (head.fields.find("date") == Fields::npos) (void)head.fields.add(pool, "date", http_date());
  if (head.status == 204 || head.status == 304) return;
  std::array<char, 24> digits;
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), response.body.size());
  (void)head.fields.add(pool, "content-length", {digits.data(), static_cast<size_t>(written.ptr - digits.data())});
}

}  // namespace sluice
