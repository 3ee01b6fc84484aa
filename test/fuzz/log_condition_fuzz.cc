// Any bytes as a condition of an access log: refused with a message of one line, or a tree whose nodes point only to
// nodes in front of them, that is printed as it was read, and that is evaluated within bounds. A condition and its
// `not` never agree.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "proxy/access_log/listener_log.h"
#include "proxy/config/model/log_condition.h"
#include "sluice/internal/check.h"

namespace sluice {
namespace {

using config::LogCondition;
using Kind = LogCondition::Node::Kind;

bool is_random(const LogCondition& condition) {
  for (const LogCondition::Node& node : condition.nodes()) {
    if (node.kind == Kind::kRandom) return true;
  }
  return false;
}

// Whether a log with the condition takes the record.
bool takes(const LogCondition& when, const AccessRecord& record) {
  constexpr int kNoBell = -1;
  AccessLogWriter writer(kNoBell);
  config::AccessLog config;
  config.when = when;
  ListenerLog log(writer, config);
  return log.selects(record);
}

void check_tree(const LogCondition& condition) {
  SLUICE_CHECK(!condition.empty());
  for (size_t i = 0; i < condition.nodes().size(); ++i) {
    const LogCondition::Node& node = condition.nodes()[i];
    if (node.kind == Kind::kAnd || node.kind == Kind::kOr) SLUICE_CHECK(node.left < i && node.right < i);
    if (node.kind == Kind::kNot) SLUICE_CHECK(node.left < i);
    if (node.kind == Kind::kText || node.kind == Kind::kNumber) {
      SLUICE_CHECK(config::is_number(node.field.variable) == (node.kind == Kind::kNumber));
    }
  }
}

void check(std::string_view text) {
  const absl::StatusOr<LogCondition> parsed = LogCondition::parse(text);
  if (!parsed.ok()) {
    const std::string_view message = parsed.status().message();
    SLUICE_CHECK(!message.empty() && message.find('\n') == std::string_view::npos);
    return;
  }
  SLUICE_CHECK(parsed->text() == text);
  SLUICE_CHECK(LogCondition::parse(parsed->text()).value() == *parsed);
  check_tree(*parsed);
  const AccessRecord records[] = {{},
                                  {.kind = AccessRecord::Kind::kConnection, .reason = "finished", .upstream_us = 1},
                                  {.status = 503, .reason = "no_endpoint", .duration_us = 2'000'000, .grpc_status = 5}};
  const absl::StatusOr<LogCondition> opposite = LogCondition::parse(absl::StrCat("not (", text, ")"));
  for (const AccessRecord& record : records) {
    const bool some = takes(*parsed, record);
    if (opposite.ok() && !is_random(*parsed)) SLUICE_CHECK(some != takes(*opposite, record));
  }
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
