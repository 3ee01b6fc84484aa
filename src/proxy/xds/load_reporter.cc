#include "proxy/xds/load_reporter.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "net/worker.h"

namespace sluice::xds {

LoadReporter::LoadReporter(Worker& worker, HandshakerServices& handshakers, Options options, const LoadSource& source,
                           XdsCounters& counters)
    : worker_(worker),
      options_(std::move(options)),
      source_(source),
      reports_(counters.load_reports),
      timer_([](void* self) { static_cast<LoadReporter*>(self)->report(); }, this),
      stream_(worker, handshakers,
              {.service = options_.service,
               .path = kLoadStatsPath,
               .label = "service of load reports",
               .consequence = "; it is connected to again"},
              counters.load_stream, *this) {}

void LoadReporter::stop() {
  timer_.cancel();
  stream_.stop();
}

void LoadReporter::on_open() { stream_.send(write_load_request(options_.node, {})); }

absl::Status LoadReporter::on_message(std::string_view message) {
  std::optional<LoadWish> wish = read_load_response(message);
  if (!wish) return absl::InvalidArgumentError("it sent a message that is no LoadStatsResponse");
  wish_ = *std::move(wish);
  if (const std::shared_ptr<const LoadView> view = source_.view()) follow(*view, monotonic_ms());
  schedule();
  return absl::OkStatus();
}

// A new stream begins anew: what happened in between is lost, as in Envoy.
void LoadReporter::on_lost() {
  timer_.cancel();
  wish_.reset();
  meter_.clear();
  if (ended()) options_.on_ended();
}

std::vector<std::string> LoadReporter::wanted_clusters() const {
  std::vector<std::string> names;
  for (const auto& [name, facts] : options_.table()) {
    if (options_.only_wanted && !facts.wants_reports) continue;
    if (wish_->all_clusters || wish_->clusters.contains(name)) names.push_back(name);
  }
  return names;
}

// Clusters that are new since the last report are measured from now on.
void LoadReporter::follow(const LoadView& view, uint64_t now_ms) {
  meter_.follow(wanted_clusters(), options_.table(), view, now_ms);
}

void LoadReporter::report() {
  if (!wish_) return;
  // Before the first configuration is in effect, and at the end, there is nothing to report. If the service has not
  // read the last report, the next one has more in it.
  if (const std::shared_ptr<const LoadView> view = source_.view(); view && stream_.unsent() == 0) {
    const uint64_t now_ms = monotonic_ms();
    stream_.send(write_load_request({}, meter_.take(options_.table(), *view, wish_->by_endpoint, now_ms)));
    reports_.add();
    follow(*view, now_ms);
  }
  schedule();
}

// An interval of 0 wants no reports.
void LoadReporter::schedule() {
  timer_.cancel();
  if (!wish_ || wish_->interval_ms == 0) return;
  worker_.timers().arm(timer_, worker_.now_ms() + std::max(wish_->interval_ms, kMinIntervalMs));
}

}  // namespace sluice::xds
