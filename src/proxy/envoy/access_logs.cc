#include "proxy/envoy/access_logs.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/common/suggestions.h"
#include "proxy/envoy/format_text.h"
#include "proxy/envoy/values.h"

namespace sluice::envoy {
namespace {

using config::Node;

// The text of the format; nothing if there is none.
std::optional<std::string> text_format_of(const Message& log) {
  if (log.has("format")) return log.text("format");
  const Message format = log.sub("log_format");
  if (format.has("text_format")) return format.text("text_format");
  return inline_text_of(format, "text_format_source");
}

void put_format(const Message& log, Node& out) {
  const Message format = log.sub("log_format");
  if (log.has("json_format") || log.has("typed_json_format") || format.has("json_format")) {
    put(out, "format", "json");
    return log.ignore("log_format", "lines have the keys of Sluice's format `json`");
  }
  const std::optional<std::string> text = text_format_of(log);
  if (!text) return;
  TranslatedText made = translate_text(*text, TextUse::kAccessLog);
  absl::string_view line = made.text;
  absl::ConsumeSuffix(&line, "\n");
  if (!made.unknown.empty()) {
    return log.refuse("log_format", absl::StrCat("there is no counterpart of ", config::in_quotes(made.unknown),
                                                 ": lines have the default format"));
  }
  if (line.find('\n') != absl::string_view::npos)
    return log.refuse("log_format", "a format is one line: lines have the default format");
  if (made.inexact) log.ignore("log_format", "times are in microseconds, and some values have another form");
  put(out, "format", line);
}

}  // namespace

void put_access_log(const Message& owner, Node& out) {
  for (const Message& entry : owner.subs("access_log")) {
    const std::string type = entry.any_type("typed_config");
    const Message log = entry.any("typed_config");
    if (!log) {
      entry.refuse("typed_config", absl::StrCat("there is no counterpart of ", config::in_quotes(type)));
      continue;
    }
    if (out.find("access_log") != nullptr) {
      entry.refuse("", "there is one access log: the first is used");
      continue;
    }
    std::string file = log.text("path");
    if (type.ends_with(".StdoutAccessLog") || file == "/dev/stdout") file = "stdout";
    if (type.ends_with(".StderrAccessLog") || file == "/dev/stderr") file = "stderr";
    Node made = map_node();
    put(made, "file", file);
    put_format(log, made);
    put(out, "access_log", std::move(made));
  }
}

}  // namespace sluice::envoy
