// Maintenance: while a file exists, the route responds with 503.
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "proxy/http/proxy/phases/phase.h"
#include "proxy/http/proxy/phases/phase_context.h"

namespace sluice {

namespace {

// How long a worker relies on what it has seen: a look at the file system may take a while, and so it is not made for
// each request.
constexpr uint64_t kLookMs = 1000;

class MaintenancePhase final : public Phase {
 public:
  explicit MaintenancePhase(config::Snapshot<config::Maintenance> rule) : rule_(std::move(rule)) {}

  PhaseResult on_request(PhaseContext& exchange) override {
    if (const uint64_t now = exchange.now_ms(); now >= look_ms_) {
      look_ms_ = now + kLookMs;
      file_exists_ = access(rule_->file.c_str(), F_OK) == 0;
    }
    return file_exists_ ? PhaseResult::fail(HttpEnd::kMaintenance) : PhaseResult::go_on();
  }

  bool on_response(PhaseContext& exchange, Head& head, bool) override {
    if (exchange.end() != HttpEnd::kMaintenance) return true;
    std::array<char, 24> digits;
    const char* const end = std::to_chars(digits.begin(), digits.end(), rule_->retry_after.count() / 1000).ptr;
    return head.fields.add(exchange.pool(), "retry-after", {digits.data(), end});
  }

 private:
  const config::Snapshot<config::Maintenance> rule_;
  uint64_t look_ms_ = 0;  // When to look again.
  bool file_exists_ = false;
};

}  // namespace

std::unique_ptr<Phase> make_maintenance(const PhaseSetup& setup) {
  const config::HttpRoute* const route = setup.route();
  if (!route || !route->maintenance) return nullptr;
  return std::make_unique<MaintenancePhase>(setup.target->route.part(*route->maintenance));
}

}  // namespace sluice
