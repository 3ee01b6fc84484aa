#include "proxy/resolve/resolver.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/config/model/units.h"
#include "proxy/log/run_log.h"

namespace sluice {

namespace {

// The maximum number of concurrent lookups. Each has its own sockets.
constexpr size_t kMaxLookups = 16;

constexpr int64_t kLongestWaitMs = 60'000;

// A message lists at most this many addresses and counts the rest.
constexpr size_t kLoggedAddresses = 8;

uint64_t now_ms() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1'000'000;
}

void log(const UpstreamState& upstream, const std::string& text, LogLevel level = LogLevel::kWarning) {
  log_line(level, absl::StrCat("upstream \"", upstream.config().name, "\": ", text),
           {.upstream = upstream.config().name});
}

std::string list(const std::vector<ResolvedEndpoint>& endpoints) {
  if (endpoints.empty()) return "no address";
  std::string text;
  for (size_t i = 0; i < std::min(endpoints.size(), kLoggedAddresses); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", endpoints[i].address.text());
  }
  if (endpoints.size() > kLoggedAddresses)
    absl::StrAppend(&text, " and ", endpoints.size() - kLoggedAddresses, " more");
  return text;
}

}  // namespace

bool Resolver::has_names(const config::Config& config) {
  return std::any_of(config.upstreams.begin(), config.upstreams.end(), [](const config::Upstream& upstream) {
    return std::any_of(upstream.endpoints.begin(), upstream.endpoints.end(),
                       [](const config::Endpoint& endpoint) { return endpoint.is_resolved(); });
  });
}

Resolver::Resolver(const Upstreams& upstreams, std::function<void()> changed) : changed_(std::move(changed)) {
  for (const std::shared_ptr<UpstreamState>& upstream : upstreams) {
    const config::Upstream& config = upstream->config();
    for (uint32_t i = 0; i < config.endpoints.size(); ++i) {
      if (!config.endpoints[i].is_resolved()) continue;
      names_.push_back(std::make_unique<Name>(*upstream, i));
      patience_ = std::max(patience_, config.resolve.timeout);
    }
  }
  first_pending_ = names_.size();
}

Resolver::~Resolver() {
  if (thread_.joinable()) {
    stopping_.store(true, std::memory_order_relaxed);
    eventfd_write(wake_fd_, 1);
    thread_.join();
  }
  if (wake_fd_ >= 0) close(wake_fd_);
}

absl::Status Resolver::start() {
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) return absl::ErrnoToStatus(errno, "cannot resolve names: cannot make an eventfd");
  thread_ = std::thread([this] { main(); });
  return absl::OkStatus();
}

void Resolver::wait_for_first() {
  std::unique_lock lock(first_mutex_);
  first_done_.wait_for(lock, patience_, [this] { return first_pending_ == 0; });
}

void Resolver::note_first(Name& name) {
  if (!std::exchange(name.first, false)) return;
  const std::lock_guard lock(first_mutex_);
  if (--first_pending_ == 0) first_done_.notify_all();
}

// ---- The thread ----

void Resolver::main() {
  pthread_setname_np(pthread_self(), "resolver");
  std::vector<pollfd> polled;
  while (!stopping_.load(std::memory_order_relaxed)) {
    begin_due(now_ms());
    wait(polled, now_ms());
    for (const std::unique_ptr<Name>& name : names_) {
      if (!name->lookup) continue;
      name->lookup->process(polled);
      if (name->lookup->done()) finish(*name);
    }
  }
}

void Resolver::begin_due(uint64_t now) {
  for (const std::unique_ptr<Name>& name : names_) {
    if (lookups_in_flight_ == kMaxLookups) return;
    if (name->lookup || now < name->due_ms) continue;
    name->upstream.resolving(name->configured).lookups.add();
    name->lookup = std::make_unique<Lookup>(name->config(), name->upstream.config().resolve);
    ++lookups_in_flight_;
  }
}

void Resolver::wait(std::vector<pollfd>& polled, uint64_t now) {
  polled.assign(1, {.fd = wake_fd_, .events = POLLIN, .revents = 0});
  int64_t timeout_ms = kLongestWaitMs;
  for (const std::unique_ptr<Name>& name : names_) {
    if (!name->lookup) {
      // Lookups that are due must wait until one in flight is done, so they set no timeout.
      if (lookups_in_flight_ == kMaxLookups) continue;
      timeout_ms = std::min(timeout_ms, static_cast<int64_t>(std::max(name->due_ms, now) - now));
    } else if (name->lookup->done()) {
      timeout_ms = 0;
    } else {
      name->lookup->add_to(polled);
      name->lookup->limit(timeout_ms);
    }
  }
  poll(polled.data(), polled.size(), static_cast<int>(std::max<int64_t>(timeout_ms, 0)));
}

void Resolver::finish(Name& name) {
  LookupResult result = name.lookup->take_result();
  name.lookup.reset();
  --lookups_in_flight_;
  ResolveCounters& counters = name.upstream.resolving(name.configured);
  uint64_t pause_ms = 0;
  if (!result.failed()) take(name, result);
  if (result.error.empty()) {
    if (name.times.fails_in_a_row() > 0) log(name.upstream, absl::StrCat(name.config().text(), " is resolved again"));
    pause_ms = name.times.after_answer_ms(result.ttl_s);
  } else {
    counters.failures.add();
    pause_ms = name.times.after_failure_ms();
    log_failure(name, result);
  }
  name.due_ms = now_ms() + pause_ms;
  note_first(name);
}

// The known addresses of a family whose lookup failed are kept.
void Resolver::take(Name& name, LookupResult& result) {
  EndpointTable& slots = name.upstream.slots();
  ResolveCounters& counters = name.upstream.resolving(name.configured);
  for (const ResolvedEndpoint& old : slots.present_of(name.configured)) {
    const bool ip4 = old.address.kind() == config::Address::Kind::kIp4;
    if (ip4 ? result.lacks_ip4 : result.lacks_ip6) result.endpoints.push_back(old);
  }
  if (result.endpoints.empty()) counters.empty.add();
  // The first result needs no slow start: these endpoints begin together with the configured addresses.
  const EndpointTable::Change change = slots.replace(name.configured, result.endpoints, name.first ? 0 : now_ms());
  counters.addresses.set(change.present);
  const uint32_t left_out = change.left_out + result.left_out;
  counters.left_out.add(left_out);
  if (name.first && result.endpoints.empty())
    log(name.upstream, absl::StrCat(name.config().text(), " resolves to no address yet"));
  if (!change.any()) return;
  counters.changes.add();
  log(name.upstream,
      absl::StrCat(name.config().text(), " resolves to ", list(slots.present_of(name.configured)),
                   left_out > 0 ? absl::StrCat("; ", left_out, " more do not fit, see `resolve.max_addresses`") : ""),
      left_out > 0 || change.present == 0 ? LogLevel::kWarning : LogLevel::kInfo);
  changed_();
}

// Logs the first, second, fourth, eighth... failure in a row.
void Resolver::log_failure(const Name& name, const LookupResult& result) const {
  const uint32_t fails = name.times.fails_in_a_row();
  if (!std::has_single_bit(fails)) return;
  const std::vector<ResolvedEndpoint> known = name.upstream.slots().present_of(name.configured);
  log(name.upstream, absl::StrCat(name.config().text(), " cannot be resolved: ", result.error,
                                  known.empty() ? "" : absl::StrCat("; keeping the known addresses: ", list(known)),
                                  fails > 1 ? absl::StrCat(" (", fails, " times in a row)") : ""));
}

}  // namespace sluice
