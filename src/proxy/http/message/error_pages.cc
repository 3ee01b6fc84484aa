#include "proxy/http/message/error_pages.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proxy/common/read_file.h"
#include "proxy/http/message/reason_phrase.h"
#include "proxy/http/message/request_id.h"

namespace sluice {

namespace {

// The maximum length of a variable's value: request ids are the longest.
constexpr size_t kMaxValue = kMaxRequestIdBytes;
constexpr size_t kMaxBody = config::ErrorText::kMaxBytes + config::ErrorText::kMaxVariables * kMaxValue;

// Assembles a response body.
class Body {
 public:
  // The thread's shared instance, cleared.
  static Body& scratch() {
    static thread_local Body body;
    body.size_ = 0;
    return body;
  }
  Body& add(std::string_view text) {
    size_ += text.copy(bytes_.data() + size_, bytes_.size() - size_);
    return *this;
  }
  Body& add(uint16_t number) {
    std::array<char, 8> digits;
    const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), number);
    return add({digits.data(), static_cast<size_t>(written.ptr - digits.data())});
  }
  // Adds a member that is not the first of its JSON object; does nothing if `value` is empty. No value needs escaping.
  Body& member(std::string_view name, std::string_view value) {
    return value.empty() ? *this : add(",\"").add(name).add("\":\"").add(value).add("\"");
  }
  std::string_view text() const { return {bytes_.data(), size_}; }

 private:
  std::array<char, kMaxBody> bytes_;
  size_t size_ = 0;
};

std::string_view page(const config::ErrorText& text, const OwnError& error) {
  using config::ErrorVariable;
  Body& body = Body::scratch();
  for (const config::ErrorText::Piece& piece : text.pieces()) {
    switch (piece.variable) {
      case ErrorVariable::kNone:
        body.add(piece.text);
        break;
      case ErrorVariable::kStatus:
        body.add(error.status);
        break;
      case ErrorVariable::kReason:
        body.add(error.reason);
        break;
      case ErrorVariable::kMessage:
        body.add(error.message);
        break;
      case ErrorVariable::kRequestId:
        body.add(error.request_id);
        break;
      case ErrorVariable::kTraceId:
        body.add(error.trace_id);
        break;
    }
  }
  return body.text();
}

std::string_view json(const OwnError& error) {
  return Body::scratch()
      .add("{\"status\":")
      .add(error.status)
      .member("reason", error.reason)
      .member("message", error.message)
      .member("request_id", error.request_id)
      .add("}\n")
      .text();
}

// RFC 9457: a problem of type about:blank, whose title is the reason phrase of the status.
std::string_view problem(const OwnError& error) {
  return Body::scratch()
      .add("{\"status\":")
      .add(error.status)
      .member("title", reason_phrase(error.status))
      .member("detail", error.message)
      .member("reason", error.reason)
      .member("request_id", error.request_id)
      .add("}\n")
      .text();
}

bool is_json(std::string_view content_type) {
  const std::string_view type = absl::StripTrailingAsciiWhitespace(content_type.substr(0, content_type.find(';')));
  return absl::EndsWithIgnoreCase(type, "json");
}

}  // namespace

absl::Status ErrorPages::read_files() {
  for (config::ErrorBody& error : errors_) {
    if (error.file.empty()) continue;
    const absl::StatusOr<std::string> text = read_file(error.file);
    if (!text.ok()) return text.status();
    absl::StatusOr<config::ErrorText> parsed = config::ErrorText::parse(*text);
    if (!parsed.ok()) {
      return absl::Status(parsed.status().code(), absl::StrCat(error.file, ": ", parsed.status().message()));
    }
    error.body = *std::move(parsed);
  }
  return absl::OkStatus();
}

OwnBody ErrorPages::body(const OwnError& error, ErrorForm form) const {
  const auto fits = [&](const config::ErrorBody& each) {
    return is_json(each.content_type) == (form != ErrorForm::kPlain) &&
           std::any_of(each.status.begin(), each.status.end(),
                       [&](const config::StatusPattern& pattern) { return pattern.holds(error.status); });
  };
  if (const auto found = std::find_if(errors_.begin(), errors_.end(), fits); found != errors_.end()) {
    return {found->content_type, page(found->body, error)};
  }
  switch (form) {
    case ErrorForm::kJson:
      return {"application/json", json(error)};
    case ErrorForm::kProblem:
      return {"application/problem+json", problem(error)};
    case ErrorForm::kPlain:
      break;
  }
  return {"text/plain; charset=utf-8", Body::scratch().add(error.message).add("\n").text()};
}

}  // namespace sluice
