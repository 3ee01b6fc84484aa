#include "proxy/http/proxy/body_buffer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/log/run_log.h"
#include "sluice/copied.h"
#include "sluice/spill.h"

namespace sluice {

// One piece that is being written to the file.
class BodyBuffer::Write final : public HelperThreads::Job {
 public:
  Write(BodyBuffer& owner, Buffer&& piece) : bytes(std::move(piece)), owner_(&owner), file_(owner.file_) {}

  void run() override { done = spill(bytes, file_.pool, &error); }
  void finish(Worker&, std::unique_ptr<Job> /*self*/) override {
    if (owner_) owner_->written(*this);
  }
  void forget() { owner_ = nullptr; }

  Buffer bytes;
  bool done = false;
  FileError error;  // Of a write that is not done.

 private:
  BodyBuffer* owner_;
  BodyFile& file_;
};

namespace {

// While the file is full, each body tries again whenever it has got more.
void log_refusal(const Worker& worker, const FileError& error) {
  static thread_local LogLimit limit(1);
  if (!log_enabled(LogLevel::kWarning) || !log_admits(limit, worker.now_ms())) return;
  log_line(LogLevel::kWarning, absl::StrCat("body_file: ", error.message, left_out_text(limit)),
           {.reason = error.message});
}

}  // namespace

size_t BodyBuffer::share(Worker& worker) {
  const size_t posted = worker.small_group().posted_bytes() + worker.large_group().posted_bytes();
  const size_t used = std::min(worker.pool().out_bytes() - posted, kWorkerBytes);
  return std::clamp((kWorkerBytes - used) / 16, kMinShare, kMaxShare);
}

BodyBuffer::BodyBuffer(Worker& worker, BodyFile& file, uint64_t max_bytes, BodyFileCounters& counters, Moved moved,
                       void* context)
    : worker_(worker), file_(file), max_bytes_(max_bytes), counters_(counters), moved_(moved), context_(context) {}

BodyBuffer::~BodyBuffer() {
  if (writing_) writing_->forget();
}

void BodyBuffer::store(bool all) {
  const size_t least = all || is_pressed(worker_) ? 1 : share(worker_);
  while (!writing_ && back_.size() >= least) write();
}

void BodyBuffer::write() {
  writing_bytes_ = std::min(back_.size(), kMaxShare);
  auto made = std::make_unique<Write>(*this, back_.split_front(writing_bytes_));
  writing_ = made.get();
  if (HelperThreads::has_desk()) {
    file_.writers.start();
    return file_.writers.give(std::move(made));
  }
  made->run();
  take_back(*made);
}

void BodyBuffer::take_back(Write& write) {
  writing_ = nullptr;
  const size_t bytes = std::exchange(writing_bytes_, 0);
  if (write.done) {
    counters_.written_bytes.add(bytes);
  } else {
    front_memory_ += bytes;
    counters_.refused.add();
    log_refusal(worker_, write.error);
  }
  front_.append(std::move(write.bytes));
}

void BodyBuffer::written(Write& write) {
  if (write.done) copied_bytes += writing_bytes_;  // The spill counted them on the other thread.
  take_back(write);
  moved_(context_);
}

size_t BodyBuffer::memory_in(const Buffer& bytes) const {
  size_t count = 0;
  for (const std::span<const std::byte> window : bytes.windows()) {
    if (!file_.pool.contains(window.data())) count += window.size();
  }
  return count;
}

Buffer BodyBuffer::take(size_t bytes) {
  if (front_.empty() && !writing_) return back_.split_front(std::min(bytes, back_.size()));
  Buffer taken = front_.split_front(std::min(bytes, front_.size()));
  if (front_memory_ > 0) front_memory_ -= memory_in(taken);
  return taken;
}

void BodyBuffer::put_back(Buffer&& bytes) {
  front_memory_ += memory_in(bytes);
  front_.prepend(std::move(bytes));
}

}  // namespace sluice
