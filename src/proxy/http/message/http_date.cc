#include "proxy/http/message/http_date.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>

namespace sluice {

std::string_view http_date() {
  static thread_local time_t second = 0;
  static thread_local std::array<char, 32> text;
  static thread_local size_t size = 0;
  timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  if (now.tv_sec != second) {
    second = now.tv_sec;
    tm parts;
    gmtime_r(&second, &parts);
    // Not strftime, which follows the locale.
    static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                              "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const int written = std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                                      kDays[parts.tm_wday], parts.tm_mday, kMonths[parts.tm_mon], parts.tm_year + 1900,
                                      parts.tm_hour, parts.tm_min, parts.tm_sec);
    size = std::min(static_cast<size_t>(written), text.size() - 1);
  }
  return {text.data(), size};
}

}  // namespace sluice
