#include "proxy/overload/delay_control.h"

namespace sluice {

namespace {

// The gains of the controller, for a delay in units of the target. A delay of twice the target that stays adds 0.05 in
// each tick, and one that grows by the target adds 0.25 at once. PIE has the same ratio of about 1 to 10 for ticks of
// 15 ms; these are longer.
constexpr double kIntegral = 0.05;
constexpr double kProportional = 0.25;
// Bounds of one step. A stall of the machine must not refuse everything.
constexpr double kMostExcess = 3;
constexpr double kMostStep = 0.4;
constexpr double kMostPressure = 2;

}  // namespace

void DelayControl::tick(uint64_t now_ms, const Settings& settings) {
  const uint64_t since_ms = now_ms - std::min(tick_ends_ms_, now_ms);
  // A loop that slept for several ticks was idle in these.
  const bool was_idle = since_ms > least_ms_ + 2 * kTickMs;
  const uint64_t before_ms = std::exchange(delay_ms_, was_idle ? 0 : least_ms_);
  tick_ends_ms_ = now_ms + kTickMs;
  least_ms_ = UINT64_MAX;
  const bool low_seen = std::exchange(low_seen_, false);
  if (settings.target_ms == 0 || was_idle) {
    pressure_ = 0;
    above_since_ms_ = 0;
    return;
  }
  const auto target = static_cast<double>(settings.target_ms);
  const double excess = std::min((static_cast<double>(delay_ms_) - target) / target, kMostExcess);
  if (excess <= 0) {
    above_since_ms_ = 0;
  } else if (above_since_ms_ == 0) {
    above_since_ms_ = now_ms;
  }
  const bool begins = above_since_ms_ != 0 && now_ms - above_since_ms_ >= settings.interval_ms;
  const bool was_calm = pressure_ == 0;
  if (was_calm && !begins) return;
  const double change = (static_cast<double>(delay_ms_) - static_cast<double>(before_ms)) / target;
  const double step = std::clamp(kIntegral * excess + kProportional * change, -kMostStep, kMostStep);
  const double most = settings.refuses_normal ? kMostPressure : 1;
  pressure_ = std::clamp(pressure_ + step, 0.0, most);
  // Nothing is gained in the part of low priority without requests of it. Whether there are any is known after a tick.
  if (was_calm || low_seen || pressure_ > 1) return;
  pressure_ = step > 0 && settings.refuses_normal ? 1 + step : 0;
}

}  // namespace sluice
