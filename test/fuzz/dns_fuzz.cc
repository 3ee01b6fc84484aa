// Any bytes as a name server's response for a service: it is accepted or refused, and accepted values are within
// bounds.
#include <cstddef>
#include <cstdint>
#include <optional>

#include "proxy/resolve/lookup.h"
#include "proxy/resolve/refresh_times.h"
#include "proxy/resolve/srv_answer.h"
#include "sluice/internal/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  std::optional<SrvAnswer> answer = parse_srv_answer({data, size});
  if (!answer) return 0;
  SLUICE_CHECK(answer->records.size() <= kMaxSrvRecords && answer->ttl_s <= INT32_MAX);
  for (const SrvRecord& record : answer->records) SLUICE_CHECK(record.port != 0 && !record.target.empty());
  const size_t count = answer->records.size();
  fit_service(answer->records, 0);
  SLUICE_CHECK(answer->records.size() == count);
  uint16_t last = 0;
  for (const SrvRecord& record : answer->records) {
    SLUICE_CHECK(record.weight >= 1 && record.priority <= 15 && record.priority >= last);
    last = record.priority;
  }
  const config::Resolve settings;
  const auto pause_ms = static_cast<int64_t>(RefreshTimes(settings).after_answer_ms(answer->ttl_s));
  SLUICE_CHECK(pause_ms >= settings.min_ttl.count() && pause_ms <= settings.max_ttl.count());
  return 0;
}
