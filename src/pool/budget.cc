#include "pool/budget.h"

#include "pool/check.h"

namespace sluice {

void Budget::set_pressure(size_t high_bytes, size_t low_bytes, PressureFunction function, void* context) {
  SLUICE_CHECK(low_bytes <= high_bytes);
  {
    const std::lock_guard lock(marks_);
    pressure_ = function;
    pressure_context_ = context;
    high_ = function ? high_bytes : SIZE_MAX;
    low_ = low_bytes;
    pressed_ = false;
  }
  if (used_bytes() > high_) look_at_marks();
}

// Goes on until the state is that of the bytes used: who changes them while the state changes may have seen the old
// one, and then does not come here.
void Budget::look_at_marks() {
  const std::lock_guard lock(marks_);
  while (pressure_ && (pressed_ ? used_ < low_ : used_ > high_)) {
    pressed_ = !pressed_;
    pressure_(pressure_context_, pressed_);
  }
}

}  // namespace sluice
