#include "proxy/http/proxy/grpc_call.h"

#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "net/worker.h"
#include "proxy/http/message/grpc_message.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

constexpr uint8_t kUnknown = 2, kDeadlineExceeded = 4, kInternal = 13, kUnavailable = 14, kDataLoss = 15;

// What a status says about the endpoint, as a status of HTTP.
uint16_t health_of(uint8_t status) {
  switch (status) {
    case kUnavailable:
      return 503;
    case kDeadlineExceeded:
      return 504;
    case kUnknown:
    case kInternal:
    case kDataLoss:
      return 500;
    default:
      return 200;
  }
}

}  // namespace

GrpcCall::GrpcCall(HttpWorker& worker, HttpUpstream& to, std::string_view path, std::string_view message,
                   uint64_t timeout_ms, Caller& caller)
    : SideRequest(worker, to, Head(), caller) {
  SLUICE_CHECK(write_head(path, timeout_ms));
  ChunkPool& pool = worker_.worker().pool();
  const std::array prefix = grpc_prefix(static_cast<uint32_t>(message.size()));
  const bool room =
      message_.append_copy(pool, std::string_view(prefix.data(), prefix.size())) && message_.append_copy(pool, message);
  if (!room) message_.clear();
}

bool GrpcCall::write_head(std::string_view path, uint64_t timeout_ms) {
  ChunkPool& pool = worker_.worker().pool();
  return request_.set(pool, Head::Part::kMethod, "POST") && request_.set(pool, Head::Part::kPath, path) &&
         request_.fields.add(pool, "content-type", "application/grpc") && request_.fields.add(pool, "te", "trailers") &&
         request_.fields.add(pool, "grpc-timeout", absl::StrCat(timeout_ms, "m")) &&
         request_.fields.add(pool, "user-agent", "sluice");
}

std::string_view GrpcCall::find_flaw() const { return message_.empty() ? "no memory is left" : ""; }

void GrpcCall::send(HttpStream& stream) {
  stream.send_head(request_, /*end=*/false);
  stream.send_body(message_.clone(), /*end=*/true);
}

void GrpcCall::on_head(HttpStream&, Head&& head, bool end) {
  if (head.status < 200) return;
  response_ = std::move(head);
  if (response_.status != 200) {
    note_response(response_.status);
    return give_up(Outcome::kFailed, "its HTTP status is not 200");
  }
  if (end) return conclude(response_.fields);  // Without a message.
  if (!is_grpc_type(response_.fields.value("content-type"))) {
    note_response(502);
    give_up(Outcome::kFailed, "its response is not gRPC");
  }
}

void GrpcCall::on_body(HttpStream&, Buffer&& body, bool end) {
  if (take_body(std::move(body)) && end) conclude(Fields());
}

void GrpcCall::conclude(const Fields& last) {
  const std::optional<uint8_t> status = read_grpc_status(last.value("grpc-status"));
  note_response(status ? health_of(*status) : uint16_t{502});
  if (!status) return finish(Outcome::kFailed, "its response has no grpc-status");
  if (*status != 0) {
    return finish(*status == kDeadlineExceeded ? Outcome::kTimeout : Outcome::kFailed, describe_grpc_status(*status));
  }
  if (!unwrap_grpc_message(body_)) return finish(Outcome::kFailed, "its response is not one message of gRPC");
  response_.clear();
  finish(Outcome::kResponse);
}

}  // namespace sluice
