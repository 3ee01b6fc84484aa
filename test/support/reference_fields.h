// How llhttp reads the field lines that http1::take_field_line() reads.
#pragma once

#include <llhttp.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/common/token.h"
#include "proxy/http/h1/field_line.h"
#include "sluice/internal/check.h"

namespace sluice::test {

struct ReadFields {
  bool refused = false;
  std::vector<std::pair<std::string, std::string>> fields;  ///< Unless refused.

  bool operator==(const ReadFields&) const = default;
};

/// `section`: lines that end with CR LF, only the last one empty.
inline ReadFields read_by_llhttp(std::string_view section) {
  struct Reading {
    ReadFields read;
    std::string name, value;
  } reading;
  llhttp_settings_t settings;
  llhttp_settings_init(&settings);
  settings.on_header_field = [](llhttp_t* parser, const char* at, size_t bytes) {
    static_cast<Reading*>(parser->data)->name.append(at, bytes);
    return 0;
  };
  settings.on_header_value = [](llhttp_t* parser, const char* at, size_t bytes) {
    static_cast<Reading*>(parser->data)->value.append(at, bytes);
    return 0;
  };
  settings.on_header_value_complete = [](llhttp_t* parser) {
    auto& of = *static_cast<Reading*>(parser->data);
    of.read.fields.emplace_back(of.name, http1::trimmed(of.value));
    of.name.clear();
    of.value.clear();
    return 0;
  };
  settings.on_headers_complete = [](llhttp_t*) { return static_cast<int>(HPE_PAUSED); };
  llhttp_t parser;
  llhttp_init(&parser, HTTP_REQUEST, &settings);
  parser.data = &reading;
  constexpr std::string_view kRequestLine = "GET / HTTP/1.1\r\n";
  SLUICE_CHECK(llhttp_execute(&parser, kRequestLine.data(), kRequestLine.size()) == HPE_OK);
  if (llhttp_execute(&parser, section.data(), section.size()) != HPE_PAUSED) return {.refused = true, .fields = {}};
  SLUICE_CHECK(llhttp_get_error_pos(&parser) == section.data() + section.size());
  return reading.read;
}

inline ReadFields read_by_field_line(std::string_view section) {
  ReadFields read;
  while (section != "\r\n") {
    http1::FieldLine line;
    if (http1::take_field_line(section, line)) return {.refused = true, .fields = {}};
    read.fields.emplace_back(line.name, line.value);
  }
  return read;
}

/// Whether llhttp gives the field a meaning, by which it may refuse what is a field line: its length is no number, or
/// it is there twice.
inline bool llhttp_interprets(const ReadFields& read) {
  for (const auto& [name, value] : read.fields) {
    if (http1::same(name, "content-length") || http1::same(name, "transfer-encoding")) return true;
  }
  return false;
}

}  // namespace sluice::test
