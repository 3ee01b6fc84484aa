// Any bytes as a response of Envoy's services, and as a message of protobuf. Whatever is read is within the message,
// and what may be set can be set: no field of a message or a connection, and no line end in a value.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/auth/ext_authz.h"
#include "proxy/common/proto_reader.h"
#include "proxy/common/proto_writer.h"
#include "proxy/http/message/fields.h"
#include "proxy/rate_limit/global_rate_limit.h"
#include "sluice/chunk_pool.h"
#include "sluice/internal/check.h"

namespace sluice {
namespace {

void check_within(std::string_view part, std::string_view whole) {
  SLUICE_CHECK(part.empty() ||
               (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size()));
}

// Fields that are read are written again, and read once more.
void check_fields(std::string_view message) {
  std::string room(message.size() * 2 + 64, '\0');
  ProtoWriter out(room);
  ProtoReader in(message);
  while (in.next()) {
    check_within(in.bytes(), message);
    if (in.wire() == ProtoWire::kBytes) {
      const size_t begun = out.begin(in.field());
      out.end(begun);
      out.utf8(in.field(), in.bytes());
    } else {
      out.number(in.field(), in.number());
    }
  }
  if (!out.ok()) return;
  ProtoReader again(out.written());
  while (again.next()) {
  }
  SLUICE_CHECK(again.ok());
}

void check_set(const Fields& fields) {
  for (const Fields::Field field : fields) {
    SLUICE_CHECK(!field.name.empty() && field.name.find_first_of(": \r\n") == std::string_view::npos);
    SLUICE_CHECK(field.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos);
    for (const std::string_view name : {"host", "content-length", "transfer-encoding", "connection", "te"}) {
      SLUICE_CHECK(field.name != name);
    }
  }
}

void check_authorizer(ChunkPool& pool, std::string_view message) {
  const std::optional<CheckResponse> response = read_check_response(message);
  if (!response) return;
  check_within(response->body, message);
  check_within(response->details, message);
  SLUICE_CHECK(response->status >= 200 && response->status < 600);
  Fields request, client;
  if (response->verdict == CheckResponse::Verdict::kAllowed) {
    (void)change_request(pool, *response, request);
    (void)change_client_response(pool, response->details, client);
  } else if (response->verdict == CheckResponse::Verdict::kDenied) {
    (void)add_denied_fields(pool, *response, client);
  }
  check_set(request);
  check_set(client);
}

void check_rate_limits(ChunkPool& pool, std::string_view message) {
  const std::optional<RateLimitResponse> response = read_rate_limit_response(message);
  if (!response) return;
  check_within(response->body, message);
  check_within(response->name, message);
  Fields request, client;
  (void)add_request_fields(pool, message, request);
  (void)add_response_fields(pool, message, client);
  (void)add_limit_fields(pool, *response, "edge", client);
  check_set(request);
  check_set(client);
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static sluice::ChunkPool pool({.budget_bytes = size_t{16} << 20});
  const sluice::ChunkPool::Use use(&pool);
  const std::string message(reinterpret_cast<const char*>(data), size);
  sluice::check_fields(message);
  sluice::check_authorizer(pool, message);
  sluice::check_rate_limits(pool, message);
  return 0;
}
