#include "proxy/common/json_writer.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

// The length of the UTF-8 sequence at the beginning of `text`; 0 if there is none.
size_t sequence_bytes(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  const size_t bytes = first < 0x80 ? 1 : first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : 4;
  if ((first >= 0x80 && first < 0xc2) || first > 0xf4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  if (first == 0xe0 && at(1) < 0xa0) return 0;  // Longer than needed.
  if (first == 0xed && at(1) > 0x9f) return 0;  // A surrogate.
  if (first == 0xf0 && at(1) < 0x90) return 0;
  if (first == 0xf4 && at(1) > 0x8f) return 0;
  return bytes;
}

}  // namespace

JsonWriter& JsonWriter::key(std::string_view name) {
  value(name);
  out_ += ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  begin_value();
  out_ += '"';
  while (!text.empty()) {
    const size_t bytes = sequence_bytes(text);
    const char c = text[0];
    if (bytes == 0) {
      out_ += "\xef\xbf\xbd";  // U+FFFD.
    } else if (c == '"' || c == '\\') {
      (out_ += '\\') += c;
    } else if (c == '\n') {
      out_ += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      absl::StrAppendFormat(&out_, "\\u%04x", static_cast<unsigned>(c));
    } else {
      out_ += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  out_ += '"';
  return *this;
}

JsonWriter& JsonWriter::value(bool truth) { return raw(truth ? "true" : "false"); }

JsonWriter& JsonWriter::value(double number) { return raw(absl::StrFormat("%.3f", number)); }

JsonWriter& JsonWriter::raw(std::string_view text) {
  begin_value();
  out_ += text;
  return *this;
}

JsonWriter& JsonWriter::open(char bracket) {
  begin_value();
  out_ += bracket;
  empty_.push_back(true);
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  SLUICE_CHECK(!empty_.empty());
  const bool was_empty = empty_.back();
  empty_.pop_back();
  if (!was_empty) new_line();
  out_ += bracket;
  return *this;
}

void JsonWriter::begin_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (empty_.empty()) return;
  if (!empty_.back()) out_ += ',';
  empty_.back() = false;
  new_line();
}

void JsonWriter::new_line() { absl::StrAppend(&out_, "\n", std::string(2 * empty_.size(), ' ')); }

std::string JsonWriter::text() && {
  SLUICE_CHECK(empty_.empty());
  out_ += '\n';
  return std::move(out_);
}

}  // namespace sluice
