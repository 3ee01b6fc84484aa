#include "proxy/alts/handshaker_lookup.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "proxy/config/model/config.h"
#include "proxy/resolve/lookup.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// The interval at which a lookup checks whether it was canceled.
constexpr int64_t kLookMs = 50;

// Once addresses of one family are known, the lookup waits this long for the other family (RFC 8305 section 3).
constexpr std::chrono::milliseconds kOtherFamily{50};

}  // namespace

class HandshakerLookup::Job final : public HelperThreads::Job {
 public:
  Job(HandshakerLookup& lookup, const config::EndpointAddress& name, const config::Resolve& settings)
      : lookup_(&lookup), settings_(settings) {
    endpoint_.address = name;
  }

  void run() override;
  void finish(Worker&, std::unique_ptr<HelperThreads::Job>) override {
    if (!lookup_) return;
    lookup_->job_ = nullptr;
    lookup_->owner_.on_looked_up(std::move(result_));
  }
  void cancel() {
    lookup_ = nullptr;
    cancelled_.store(true, std::memory_order_relaxed);
  }

 private:
  HandshakerLookup* lookup_;  // Used only by the worker. Null: the lookup was canceled.
  config::Endpoint endpoint_;
  const config::Resolve settings_;
  std::atomic<bool> cancelled_{false};
  Result result_;
};

void HandshakerLookup::Job::run() {
  using Clock = std::chrono::steady_clock;
  auto end = Clock::now() + std::chrono::milliseconds(kTimeoutMs);
  Lookup lookup(endpoint_, settings_);
  std::vector<pollfd> polled;
  for (bool found = false; !lookup.done() && Clock::now() < end;) {
    if (cancelled_.load(std::memory_order_relaxed)) return;
    if (!found && lookup.found_some()) {
      found = true;
      end = std::min(end, Clock::now() + kOtherFamily);
    }
    polled.clear();
    lookup.add_to(polled);
    int64_t timeout_ms = kLookMs;
    lookup.limit(timeout_ms);
    poll(polled.data(), polled.size(), static_cast<int>(timeout_ms));
    lookup.process(polled);
  }
  const bool done = lookup.done();
  LookupResult result = lookup.take_result();
  for (const ResolvedEndpoint& found : result.endpoints) result_.addresses.push_back(found.address);
  if (!result_.addresses.empty()) return;
  if (!done) {
    result_.error = "no answer from the name servers within " + std::to_string(kTimeoutMs / 1000) + " seconds";
  } else {
    result_.error = result.error.empty() ? "the name has no address" : result.error;
  }
}

void HandshakerLookup::begin(const config::EndpointAddress& name, const config::Resolve& settings) {
  SLUICE_CHECK(name.is_name() && !in_progress());
  if (!threads_ || !HelperThreads::has_desk()) return owner_.on_looked_up({{}, "names are not looked up here"});
  auto job = std::make_unique<Job>(*this, name, settings);
  job_ = job.get();
  threads_->start();
  threads_->give(std::move(job));
}

void HandshakerLookup::cancel() {
  if (Job* const job = std::exchange(job_, nullptr)) job->cancel();
}

}  // namespace sluice
