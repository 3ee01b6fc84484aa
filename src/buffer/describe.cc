// Buffers as text, for logs and for people. Not for the data path: it allocates.

#include <algorithm>
#include <array>
#include <ostream>
#include <string>
#include <string_view>

#include "sluice/buffer.h"

namespace sluice::inline v0_1 {

namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

bool printable(unsigned char c) { return c >= 0x20 && c < 0x7f; }

void append_hex(std::string& text, uint64_t value, int digits) {
  while (digits-- > 0) text += kDigits[value >> (4 * digits) & 0xf];
}

void append_count(std::string& text, size_t count, std::string_view noun) {
  text += std::to_string(count);
  text += ' ';
  text += noun;
  if (count != 1) text += 's';
}

void append_escaped(std::string& text, unsigned char c) {
  switch (c) {
    case '\r':
      text += "\\r";
      return;
    case '\n':
      text += "\\n";
      return;
    case '\t':
      text += "\\t";
      return;
    case '"':
      text += "\\\"";
      return;
    case '\\':
      text += "\\\\";
      return;
    default:
      break;
  }
  if (printable(c)) {
    text += static_cast<char>(c);
  } else {
    text += "\\x";
    append_hex(text, c, 2);
  }
}

}  // namespace

std::string Buffer::describe(size_t max_bytes) const {
  std::string text;
  append_count(text, size(), "byte");
  if (empty()) return text;
  text += " in ";
  append_count(text, window_count(), "window");
  if (max_bytes == 0) return text;
  text += ": \"";
  apply(0, std::min(size(), max_bytes), [&text](std::span<const std::byte> piece) {
    for (const std::byte byte : piece) append_escaped(text, static_cast<unsigned char>(byte));
  });
  text += size() > max_bytes ? "\"..." : "\"";
  return text;
}

std::ostream& operator<<(std::ostream& out, const Buffer& buffer) { return out << buffer.describe(); }

std::string Buffer::hex_dump(size_t offset, size_t max_bytes) const {
  constexpr size_t kLine = 16;
  std::string text;
  if (offset >= size()) return text;
  std::array<unsigned char, kLine> line;
  size_t filled = 0;
  const auto end_line = [&] {
    append_hex(text, offset, 8);
    for (size_t i = 0; i < kLine; ++i) {
      text += i % 8 == 0 ? "  " : " ";
      if (i < filled) {
        append_hex(text, line[i], 2);
      } else {
        text += "  ";
      }
    }
    text += "  |";
    for (size_t i = 0; i < filled; ++i) text += printable(line[i]) ? static_cast<char>(line[i]) : '.';
    text += "|\n";
    offset += filled;
    filled = 0;
  };
  apply(offset, std::min(size() - offset, max_bytes), [&](std::span<const std::byte> piece) {
    for (const std::byte byte : piece) {
      line[filled++] = static_cast<unsigned char>(byte);
      if (filled == kLine) end_line();
    }
  });
  if (filled > 0) end_line();
  return text;
}

}  // namespace sluice::inline v0_1
