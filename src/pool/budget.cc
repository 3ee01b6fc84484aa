#include "sluice/budget.h"

#include "sluice/internal/check.h"

namespace sluice::inline v0_1 {

namespace {

class Lock {
 public:
  explicit Lock(pthread_mutex_t& mutex) : mutex_(mutex) { SLUICE_CHECK(pthread_mutex_lock(&mutex_) == 0); }
  ~Lock() { pthread_mutex_unlock(&mutex_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

}  // namespace

void Budget::set_pressure(size_t high_bytes, size_t low_bytes, PressureFunction function, void* context) {
  SLUICE_CHECK(low_bytes <= high_bytes);
  {
    const Lock lock(marks_);
    pressure_ = function;
    pressure_context_ = context;
    high_ = function ? high_bytes : SIZE_MAX;
    low_ = low_bytes;
    pressed_ = false;
  }
  if (used_bytes() > high_) update_pressure();
}

// Loops until the state matches the bytes in use: a thread that changes `used_` during the callback may have read the
// old state and then does not call this function.
void Budget::update_pressure() {
  const Lock lock(marks_);
  while (pressure_ && (pressed_ ? used_ < low_ : used_ > high_)) {
    pressed_ = !pressed_;
    pressure_(pressure_context_, pressed_);
  }
}

}  // namespace sluice::inline v0_1
