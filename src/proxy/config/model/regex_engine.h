#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace re2 {
class RE2;
}

/// RE2, without its headers: they include abseil's, and a system's RE2 may be built with another abseil than Sluice
/// (that of Debian 13 is). So only regex_engine.cc includes them, and is compiled without Sluice's abseil.
namespace sluice::config::regex_engine {

/// Of bytes, `.` is any one byte. RE2 keeps within `max_memory_bytes`.
std::shared_ptr<const re2::RE2> compile(std::string_view text, size_t max_memory_bytes);
/// Empty, or the mistake in the expression, with which nothing else may be done.
const std::string& mistake(const re2::RE2& compiled);

/// Whether all of `subject` matches.
bool fits(const re2::RE2& compiled, std::string_view subject);
/// Whether all of it matches, and then the whole match and the text of the capture groups, as many as there is room
/// for.
bool find_groups(const re2::RE2& compiled, std::string_view subject, std::span<std::string_view> groups);

/// The number in the highest of `\0` to `\9` in a substitution, or 0.
int highest_group(std::string_view substitution);
/// Empty, or the mistake in a substitution: an invalid escape, or a group that does not exist.
std::string substitution_mistake(const re2::RE2& compiled, std::string_view substitution);

}  // namespace sluice::config::regex_engine
