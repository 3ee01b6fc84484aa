#include "proxy/xds/health_reporter.h"

#include <algorithm>
#include <utility>

#include "net/worker.h"

namespace sluice::xds {
namespace {

// Files of certificates are renewed by others. One cluster is read at a time.
constexpr uint64_t kCertificateMs = 60'000;
// Checks that were ended take some turns of the loop.
constexpr uint64_t kCleanUpMs = 20;
// While checks of more endpoints are ending, no others begin.
constexpr size_t kMaxEnding = CheckedClusters::kMaxChecks / 10;

}  // namespace

HealthReporter::HealthReporter(HttpWorker& worker, Options options, CheckSettingsMaker maker,
                               HealthDiscoveryCounters& counters)
    : worker_(worker.worker()),
      options_(std::move(options)),
      counters_(counters),
      clusters_(worker, std::move(maker), counters),
      change_timer_([](void* self) { static_cast<HealthReporter*>(self)->apply_newest(); }, this),
      report_timer_([](void* self) { static_cast<HealthReporter*>(self)->report(); }, this),
      certificate_timer_([](void* self) { static_cast<HealthReporter*>(self)->renew_certificates(); }, this),
      clean_up_timer_([](void* self) { static_cast<HealthReporter*>(self)->clean_up(); }, this),
      stream_(worker.worker(), worker.handshakers(),
              {.service = options_.service,
               .path = kHealthPath,
               .label = "health discovery service",
               .consequence = "; what it has sent is checked on, and it is connected to again"},
              counters.stream, *this) {}

void HealthReporter::start() {
  renew_certificates();
  stream_.connect();
}

void HealthReporter::stop() {
  stopping_ = true;
  change_timer_.cancel();
  report_timer_.cancel();
  certificate_timer_.cancel();
  clusters_.close();
  stream_.stop();
  clean_up_later();
}

void HealthReporter::on_open() { stream_.send(write_health_request(options_.node)); }

absl::Status HealthReporter::on_message(std::string_view message) {
  const std::optional<HealthSpecifier> specifier = read_health_specifier(message);
  if (!specifier) return absl::InvalidArgumentError("it sent a message that is no HealthCheckSpecifier");
  if (stopping_) return absl::OkStatus();
  newest_ = std::string(message);
  if (!change_timer_.armed()) apply_newest();
  // The same interval goes on, so that changes that come often do not put the report off.
  const uint64_t interval_ms = std::max(specifier->interval_ms, kMinIntervalMs);
  if (interval_ms_ == interval_ms) return absl::OkStatus();
  interval_ms_ = interval_ms;
  report_timer_.cancel();
  worker_.timers().arm(report_timer_, worker_.now_ms() + interval_ms);
  return absl::OkStatus();
}

void HealthReporter::apply_newest() {
  const uint64_t now_ms = worker_.now_ms();
  const bool has_room = clusters_.destroy_ended() <= kMaxEnding;
  if (now_ms < next_change_ms_ || !has_room) {
    return worker_.timers().arm(change_timer_, std::max(next_change_ms_, now_ms + kCleanUpMs));
  }
  next_change_ms_ = now_ms + kMinChangeMs;
  clusters_.follow(*read_health_specifier(newest_));
  newest_.clear();
  clean_up_later();
}

void HealthReporter::on_lost() {
  report_timer_.cancel();
  interval_ms_.reset();
}

// If the service has not read the last report, there is none: the next one says what is so then.
void HealthReporter::report() {
  if (!interval_ms_) return;
  const std::string report = write_health_report(clusters_.health());
  if (stream_.unsent() == 0) {
    stream_.send(report);
    counters_.reports.add();
  }
  worker_.timers().arm(report_timer_, worker_.now_ms() + *interval_ms_);
}

void HealthReporter::renew_certificates() {
  clusters_.renew_certificates();
  worker_.timers().arm(certificate_timer_, worker_.now_ms() + kCertificateMs);
}

void HealthReporter::clean_up() {
  if (clusters_.destroy_ended() > 0 || (stopping_ && !stream_.ended())) return clean_up_later();
  if (stopping_) options_.on_ended();
}

void HealthReporter::clean_up_later() {
  if (!clean_up_timer_.armed()) worker_.timers().arm(clean_up_timer_, worker_.now_ms() + kCleanUpMs);
}

}  // namespace sluice::xds
