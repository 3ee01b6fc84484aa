#include "proxy/xds/service_stream.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proxy/log/run_log.h"
#include "proxy/tls/tls_files.h"

namespace sluice::xds {
namespace {

// Between two connections: Envoy's defaults (JitteredExponentialBackOffStrategy of its gRPC streams).
constexpr uint64_t kFirstRetryMs = 500, kLastRetryMs = 30'000;

}  // namespace

ServiceStream::ServiceStream(Worker& worker, HandshakerServices& handshakers, Options options, StreamCounters& counters,
                             User& user)
    : worker_(worker),
      options_(std::move(options)),
      counters_(counters),
      user_(user),
      service_(std::make_shared<UpstreamState>(options_.service.part(options_.service->upstreams.front()))),
      services_(worker, handshakers, *service_),
      view_(service_->slots()),
      retry_([](void* self) { static_cast<ServiceStream*>(self)->connect(); }, this),
      random_(static_cast<uint64_t>(getpid()) ^ monotonic_ms()) {
  if (!Resolver::has_names(*options_.service)) return;
  resolver_ = std::make_unique<Resolver>(Resolver::Upstreams{service_}, [] {});
  if (const absl::Status started = resolver_->start(); !started.ok()) {
    log_line(LogLevel::kError, absl::StrCat("xds: ", started.message()));
    return;
  }
  resolver_->wait_for_first();
}

ServiceStream::~ServiceStream() { resolver_.reset(); }

std::string ServiceStream::describe() const {
  return absl::StrCat("xds: ", options_.label, " ", service_->describe(endpoint_));
}

void ServiceStream::connect() {
  if (stopping_) return;
  view_.refresh();
  const auto give_up = [this](std::string_view why) {
    fail(absl::StrCat("xds: ", options_.label, ": ", why), "");
    connect_later();
  };
  if (view_.present().empty()) return give_up("its name has no address");
  std::vector<FileWarning> warnings;
  // Read again each time, as certificates are renewed.
  absl::StatusOr<bssl::UniquePtr<SSL_CTX>> tls = read_tls_files_of(service_->config(), warnings);
  if (!tls.ok()) return give_up(tls.status().message());
  service_->tls.replace(*std::move(tls));
  endpoint_ = view_.present()[attempts_ % view_.present().size()];
  view_.hold(endpoint_);
  connection_ = new AdsConnection(services_, *this, endpoint_, options_.path);
  connection_->begin();
}

// With full jitter, so that a fleet does not come back at once.
void ServiceStream::connect_later() {
  const uint64_t most = std::min(kLastRetryMs, kFirstRetryMs << std::min<size_t>(attempts_, 6));
  ++attempts_;
  worker_.timers().arm(retry_, worker_.now_ms() + 1 + random_.below(most));
}

void ServiceStream::fail(std::string_view why, std::string_view consequence) {
  counters_.failures.add();
  if (last_failure_ == why) return;
  last_failure_ = std::string(why);
  log_line(LogLevel::kWarning, absl::StrCat(why, consequence));
}

void ServiceStream::send(std::string_view message) {
  if (connection_ != nullptr) connection_->send(message);
}

void ServiceStream::stop() {
  stopping_ = true;
  retry_.cancel();
  if (connection_ != nullptr) connection_->end("the process stops");
}

void ServiceStream::on_open(AdsConnection&) {
  counters_.connects.add();
  counters_.connected.set(1);
  log_line(LogLevel::kInfo, absl::StrCat(describe(), ": connected"));
  last_failure_.clear();
  user_.on_open();
}

absl::Status ServiceStream::on_message(std::string_view message) {
  const absl::Status taken = user_.on_message(message);
  if (taken.ok()) attempts_ = 0;
  return taken;
}

void ServiceStream::on_lost(AdsConnection&, std::string_view why) {
  connection_ = nullptr;
  const std::string text = absl::StrCat(describe(), ": ", why);
  view_.let_go(endpoint_);
  counters_.connected.set(0);
  if (!stopping_) {
    fail(text, options_.consequence);
    connect_later();
  }
  user_.on_lost();
}

}  // namespace sluice::xds
