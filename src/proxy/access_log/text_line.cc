// Formats a line of the access log in a configured text format.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "proxy/access_log/access_line.h"
#include "proxy/access_log/record_values.h"
#include "proxy/log/line_writer.h"

namespace sluice {

namespace {

using config::TextVariable;

// Every line reserves room for its newline and for the mark of a cut line.
constexpr std::string_view kCut = "...";
constexpr size_t kReserved = kCut.size() + 1;

class TextLine {
 public:
  TextLine(const AccessRecord& record, std::span<char> out)
      : record_(record), out_(out), line_(out.data()), response_fields_(record.response_fields) {}

  size_t format(const config::TextTemplate& text) {
    for (const config::TextTemplate::Piece& piece : text.pieces()) {
      if (room() < most_of(piece)) {
        line_.raw(kCut);
        break;
      }
      write(piece);
    }
    line_.raw("\n");
    return written();
  }

 private:
  size_t written() const { return static_cast<size_t>(line_.end() - out_.data()); }
  size_t room() const { return kMaxLogLineBytes - kReserved - written(); }

  static size_t most_of(const config::TextTemplate::Piece& piece) {
    switch (piece.variable) {
      case TextVariable::kNone:
        return piece.text.size();
      case TextVariable::kPath:
      case TextVariable::kQuery:
      case TextVariable::kTarget:
        return LineLimits::kPath;
      case TextVariable::kHeader:
      case TextVariable::kResponseHeader:
        return LineLimits::kUserAgent;
      case TextVariable::kHost:
      case TextVariable::kAuthority:
      case TextVariable::kPeer:
      case TextVariable::kTlsServerName:
        return LineLimits::kAuthority;
      default:
        return LineLimits::kName;
    }
  }

  void write(const config::TextTemplate::Piece& piece) {
    switch (piece.variable) {
      case TextVariable::kNone:
        line_.raw(piece.text);
        if (std::count(piece.text.begin(), piece.text.end(), '"') % 2 != 0) quoted_ = !quoted_;
        return;
      case TextVariable::kTime:
        return line_.time(record_.time_ms);
      case TextVariable::kClfTime:
        return line_.clf_time(record_.time_ms);
      default:
        break;
    }
    if (config::is_number(piece.variable)) {
      const std::optional<uint64_t> number = number_of_record(piece.variable, record_);
      return number ? line_.number(*number) : line_.raw("-");
    }
    const bool kept = piece.variable == TextVariable::kResponseHeader;
    write_text(kept ? response_fields_.take() : text_of_record(piece, record_, address_), most_of(piece));
  }

  // Between quotes a space does not separate fields, so it is kept.
  void write_text(std::string_view text, size_t max) {
    quoted_ ? line_.text<Spaces::kKept>(text, max) : line_.text(text, max);
  }

  const AccessRecord& record_;
  std::span<char> out_;
  LineWriter line_;
  KeptValues response_fields_;
  std::array<char, ClientIp::kTextBytes> address_;
  bool quoted_ = false;
};

}  // namespace

size_t format_text_line(const config::TextTemplate& line, const AccessRecord& record, std::span<char> out) {
  return TextLine(record, out).format(line);
}

}  // namespace sluice
