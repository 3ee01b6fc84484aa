#include "proxy/http/proxy/otlp_export.h"

#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/worker.h"
#include "proxy/http/proxy/http_upstream.h"
#include "proxy/http/proxy/http_worker.h"
#include "proxy/http/proxy/upstream_connection.h"

namespace sluice {

OtlpExport* OtlpExport::make(HttpWorker& worker, HttpUpstream& to, Owner& owner, std::string_view path,
                             uint32_t records, Buffer&& body) {
  static_assert(sizeof(OtlpExport) <= ExchangeMemory::kBlockBytes);
  return new (worker.exchange_memory().take()) OtlpExport(worker, to, owner, path, records, std::move(body));
}

OtlpExport::OtlpExport(HttpWorker& worker, HttpUpstream& to, Owner& owner, std::string_view path, uint32_t records,
                       Buffer&& body)
    : worker_(worker),
      owner_(&owner),
      path_(path),
      records_(records),
      body_(std::move(body)),
      timer_([](void* self) { static_cast<OtlpExport*>(self)->on_timer(); }, this) {
  to_ = &to;
}

void OtlpExport::set_timeout(uint64_t ms) { worker_.worker().timers().arm(timer_, worker_.worker().now_ms() + ms); }

void OtlpExport::start() {
  if (body_.empty() || !write_head()) return fail("no memory is left");
  call();
}

bool OtlpExport::write_head() {
  ChunkPool& pool = worker_.worker().pool();
  return head_.set(pool, Head::Part::kMethod, "POST") && head_.set(pool, Head::Part::kScheme, "http") &&
         head_.set(pool, Head::Part::kAuthority, to_->config().name) && head_.set(pool, Head::Part::kPath, path_) &&
         head_.fields.add(pool, "content-type", "application/x-protobuf") &&
         head_.fields.add(pool, "content-length", absl::StrCat(body_.size())) &&
         head_.fields.add(pool, "user-agent", "sluice");
}

void OtlpExport::on_upstream(UpstreamConnection& connection, HttpStream& stream) {
  take_upstream(connection, stream);
  upstream_->send_head(head_, /*end=*/false);
  upstream_->send_body(std::move(body_), /*end=*/true);
  connection_->wake();
}

void OtlpExport::on_no_upstream(HttpEnd why) {
  waiting_ = false;
  fail(http_end_name(why));
}

void OtlpExport::on_head(HttpStream&, Head&& head, bool end) {
  if (head.status < 200) return;
  status_ = head.status;
  if (end) finish();
}

void OtlpExport::on_body(HttpStream&, Buffer&& body, bool end) {
  body.clear();
  if (end) finish();
}

void OtlpExport::on_reset(HttpStream&, ResetReason) { fail("the connection ended"); }

void OtlpExport::on_timer() { fail("no response in time"); }

void OtlpExport::fail(std::string_view why) {
  error_ = why;
  stop_waiting();
  if (upstream_) upstream_->reset(ResetReason::kCancelled);
  finish();
}

void OtlpExport::finish() {
  if (!owner_) return;
  leave_upstream();
  timer_.cancel();
  Owner& owner = *std::exchange(owner_, nullptr);
  const bool refused = error_.empty() && status_ / 100 != 2;
  owner.on_exported(records_, refused ? std::string_view(absl::StrCat("status ", status_)) : error_);
  worker_.end_with_turn(*this);
}

}  // namespace sluice
