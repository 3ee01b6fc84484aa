#include "proxy/access_log/access_line.h"

#include "proxy/log/line_writer.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

constexpr size_t kFields = 15;  // Separators and quotes take at most 4 bytes for each.
static_assert(LineLimits::kTime + LineLimits::kPath + LineLimits::kUserAgent + LineLimits::kAuthority +
                  4 * LineLimits::kName + 4 * LineLimits::kWord + 5 * LineLimits::kNumber + 4 * kFields <=
              kMaxLogLineBytes);

}  // namespace

size_t format_access_line(const config::LogFormat& format, const AccessRecord& record, std::span<char> out) {
  SLUICE_DCHECK(out.size() >= kMaxLogLineBytes);
  switch (format.kind()) {
    case config::LogFormat::Kind::kJson:
      return format_json_line(record, out);
    case config::LogFormat::Kind::kText:
      return format_text_line(format.line(), record, out);
    case config::LogFormat::Kind::kDefault:
      break;
  }
  return format_default_line(record, out);
}

size_t format_default_line(const AccessRecord& record, std::span<char> out) {
  LineWriter line(out.data());
  line.raw("[");
  line.time(record.time_ms);
  line.raw("] \"");
  line.text(record.method, LineLimits::kWord);
  line.raw(" ");
  line.text(record.path, LineLimits::kPath);
  line.raw(" ");
  line.text(record.protocol, LineLimits::kWord);
  line.raw("\" ");
  line.number(record.status);
  line.raw(" ");
  line.text(record.reason, LineLimits::kWord);
  line.raw(" ");
  line.number(record.request_bytes);
  line.raw(" ");
  line.number(record.response_bytes);
  line.raw(" ");
  line.number(record.duration_us);
  line.raw(" ");
  record.upstream_us ? line.number(*record.upstream_us) : line.raw("-");
  line.raw(" ");
  line.text(record.client, LineLimits::kName);
  line.raw(" ");
  line.text(record.listener, LineLimits::kName);
  line.raw(" ");
  line.text(record.tls, LineLimits::kWord);
  line.raw(" ");
  line.text(record.upstream, LineLimits::kName);
  line.raw(" ");
  line.text(record.endpoint, LineLimits::kName);
  line.raw(" \"");
  line.text(record.kind == AccessRecord::Kind::kConnection ? record.server_name : record.authority,
            LineLimits::kAuthority);
  line.raw("\" \"");
  line.text<Spaces::kKept>(record.user_agent, LineLimits::kUserAgent);
  line.raw("\"\n");
  return static_cast<size_t>(line.end() - out.data());
}

}  // namespace sluice
