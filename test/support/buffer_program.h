// Random programs over many buffers, leases and views, of which each step is compared with a model: for the property
// test and for the fuzzer. Needs no test framework.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "buffer/buffer.h"
#include "buffer/copied.h"
#include "buffer/cursor.h"

namespace sluice::test {

/// Runs the program that is written in some bytes: any bytes are one. The model of each object is its text; of a
/// buffer, also which of its bytes came from a lease and were never cloned, so that they must be writable.
///
/// After each step: all bytes are as the model says, no writable range overlaps another object's range, bytes that must
/// be writable are, the pool counts no more than its budget, and exactly what the step may copy was counted as copied.
/// At the end every chunk is at home.
class BufferProgram {
 public:
  explicit BufferProgram(std::span<const uint8_t> program) : program_(program) {}

  /// What went wrong first, or an empty string.
  std::string run() {
    pools_[0].emplace(ChunkPool::Options{.budget_bytes = kBudgets[number() % kBudgets.size()]});
    pools_[1].emplace(ChunkPool::Options{.budget_bytes = kBudgets[number() % kBudgets.size()]});
    while (at_ < program_.size() && problem_.empty()) {
      ++steps_;
      step();
      check();
    }
    objects_ = {};
    for (auto& pool : pools_) {
      pool->take_inbox();
      if (pool->leaked() != 0 && problem_.empty()) fail("chunks did not come home");
      pool.reset();
    }
    return problem_;
  }
  size_t steps() const { return steps_; }

 private:
  static constexpr size_t kBuffers = 6, kLeases = 4, kViews = 4;
  static constexpr size_t kMaxObjectBytes = 256 << 10;
  static constexpr std::array<size_t, 5> kBudgets{512, 20'000, 100'000, 1 << 20, 16 << 20};

  // An optional that needs no header of its own: pools do not move.
  class Pool {
   public:
    ~Pool() { reset(); }
    void emplace(ChunkPool::Options options) { pool_ = new ChunkPool(options); }
    void reset() { delete std::exchange(pool_, nullptr); }
    ChunkPool* operator->() { return pool_; }
    ChunkPool& operator*() { return *pool_; }

   private:
    ChunkPool* pool_ = nullptr;
  };
  struct ModelledBuffer {
    Buffer buffer;
    std::string text;
    std::string exclusive;  // For each byte of the text 'x' when it must be writable, else '-'.
  };
  struct ModelledLease {
    Lease lease;
    std::string text;
  };
  struct ModelledView {
    View view;
    std::string text;
  };
  struct Objects {
    std::array<ModelledBuffer, kBuffers> buffers;
    std::array<ModelledLease, kLeases> leases;
    std::array<ModelledView, kViews> views;
  };
  // A window of some object in memory.
  struct Range {
    const std::byte* begin;
    const std::byte* end;
    bool writable;
  };

  // Reading the program. Behind its end there are zeros.

  uint8_t byte() { return at_ < program_.size() ? program_[at_++] : uint8_t{0}; }
  size_t number() {
    const size_t low = byte();
    return low | static_cast<size_t>(byte()) << 8;
  }
  // Sizes as they occur: mostly small, some about a tier's limit, a few large.
  size_t any_size() {
    const size_t kind = byte();
    const size_t tier = tier_bytes(static_cast<int>(kind % kTierCount));
    if (kind < 128) return byte();
    if (kind < 192) return std::min(tier, size_t{2048}) - 4 + byte() % 8;
    if (kind < 240) return number() % 5000;
    return kind < 248 ? tier - 1 + byte() % 3 : number() * 2;
  }
  // Up to and including `max`; often one of both ends.
  size_t up_to(size_t max) {
    const size_t kind = byte();
    if (kind < 16) return 0;
    if (kind < 32) return max;
    return kind < 160 ? std::min<size_t>(max, byte()) : number() * 7 % (max + 1);
  }
  // How much to take off something: mostly little.
  size_t part_of(size_t size) { return byte() % 8 == 0 ? up_to(size) : std::min<size_t>(size, byte() % 64); }
  template <typename Array>
  auto& any_of(Array& array) {
    return array[byte() % array.size()];
  }
  // Text that differs from step to step and from byte to byte.
  std::string fresh_text(size_t size) {
    std::string text(size, 0);
    for (char& c : text) c = static_cast<char>((next_byte_ = next_byte_ * 1664525 + 1013904223) >> 24);
    return text;
  }

  void fail(std::string_view what) {
    if (problem_.empty()) {
      problem_ = "step " + std::to_string(steps_) + ", operation " + std::to_string(operation_) + ": ";
      problem_ += what;
    }
  }
  void expect(bool holds, std::string_view what) {
    if (!holds) fail(what);
  }

  // The steps. Each is a small function; `may_copy_` is what it is allowed to count as copied.

  void step() {
    using Operation = void (BufferProgram::*)();
    static constexpr Operation kOperations[] = {
        &BufferProgram::allocate,      &BufferProgram::allocate,      &BufferProgram::grow_lease,
        &BufferProgram::trim_lease,    &BufferProgram::split_lease,   &BufferProgram::freeze_lease,
        &BufferProgram::write_lease,   &BufferProgram::clone_view,    &BufferProgram::trim_view,
        &BufferProgram::add_lease,     &BufferProgram::add_lease,     &BufferProgram::add_view,
        &BufferProgram::add_buffer,    &BufferProgram::add_buffer,    &BufferProgram::append_copy,
        &BufferProgram::append_copy,   &BufferProgram::append_itself, &BufferProgram::trim_front,
        &BufferProgram::trim_front,    &BufferProgram::truncate,      &BufferProgram::split_front,
        &BufferProgram::split_front,   &BufferProgram::split_front,   &BufferProgram::clear,
        &BufferProgram::clone,         &BufferProgram::clone,         &BufferProgram::move_assign,
        &BufferProgram::write_windows, &BufferProgram::write_windows, &BufferProgram::copy_out,
        &BufferProgram::fetch,         &BufferProgram::read_typed,    &BufferProgram::fill_iovecs,
        &BufferProgram::settle,        &BufferProgram::change_pool,   &BufferProgram::age_and_trim,
        &BufferProgram::add_halves,
    };
    operation_ = byte() % std::size(kOperations);
    const Operation operation = kOperations[operation_];
    may_copy_ = 0;
    const uint64_t before = copied_bytes;
    {
      ChunkPool::Use use(current_ < pools_.size() ? &*pools_[current_] : nullptr);
      (this->*operation)();
    }
    expect(copied_bytes - before == may_copy_, "copied bytes were counted wrongly");
  }

  void allocate() { allocate(any_of(objects_.leases)); }
  void allocate(ModelledLease& to) {
    Pool& pool = any_of(pools_);
    const size_t headroom = up_to(64), size = std::min(any_size(), kMaxChunkBytes - headroom);
    const size_t bytes = tier_bytes(tier_for(size + headroom));
    to = {};
    pool->take_inbox();
    const bool fits = pool->headroom_bytes() >= bytes;
    to.lease = Lease::allocate(*pool, size, headroom);
    expect(!to.lease || fits, "a chunk beyond the budget");
    if (!to.lease) return;
    expect(to.lease.headroom() == headroom, "a fresh lease's headroom");
    expect(to.lease.tailroom() == bytes - headroom, "a fresh lease's tailroom");
    to.lease.grow_back(size - part_of(size));
    write(to.lease, to.text, to.lease.size());
  }
  // Fills a lease anew.
  void write(Lease& lease, std::string& text, size_t size) {
    text = fresh_text(size);
    if (size > 0) std::memcpy(lease.data(), text.data(), size);
  }
  void write_lease() {
    ModelledLease& to = any_of(objects_.leases);
    write(to.lease, to.text, to.lease.size());
  }
  void grow_lease() {
    ModelledLease& to = any_of(objects_.leases);
    to.lease.grow_front(up_to(to.lease.headroom()));
    to.lease.grow_back(up_to(to.lease.tailroom()));
    write(to.lease, to.text, to.lease.size());
  }
  void trim_lease() {
    ModelledLease& to = any_of(objects_.leases);
    const size_t front = up_to(to.text.size());
    to.lease.trim_front(front);
    to.text.erase(0, front);
    const size_t size = up_to(to.text.size());
    to.lease.truncate(size);
    to.text.resize(size);
  }
  void split_lease() {
    ModelledLease& from = any_of(objects_.leases);
    ModelledLease& to = any_of(objects_.leases);
    if (&from == &to) return;
    const size_t at = up_to(from.text.size());
    to.lease = from.lease.split_off(at);
    to.text = from.text.substr(at);
    from.text.resize(at);
  }
  void freeze_lease() {
    ModelledLease& from = any_of(objects_.leases);
    ModelledView& to = any_of(objects_.views);
    to = {std::move(from.lease).freeze(), std::exchange(from.text, {})};
  }
  void clone_view() {
    const ModelledView& from = any_of(objects_.views);
    ModelledView copy{from.view.clone(), from.text};
    any_of(objects_.views) = std::move(copy);
  }
  void trim_view() {
    ModelledView& to = any_of(objects_.views);
    const size_t front = up_to(to.text.size());
    to.view.trim_front(front);
    to.text.erase(0, front);
    const size_t size = up_to(to.text.size());
    to.view.truncate(size);
    to.text.resize(size);
  }

  void add_lease() {
    ModelledBuffer& to = any_of(objects_.buffers);
    ModelledLease& from = any_of(objects_.leases);
    if (from.text.empty()) allocate(from);
    if (to.text.size() + from.text.size() > kMaxObjectBytes) return;
    const bool at_front = byte() % 4 == 0;
    to.exclusive.insert(at_front ? 0 : to.exclusive.size(), from.text.size(), 'x');
    to.text.insert(at_front ? 0 : to.text.size(), from.text);
    at_front ? to.buffer.prepend(std::move(from.lease)) : to.buffer.append(std::move(from.lease));
    from.text.clear();
  }
  // Neighbours on one chunk that are not equally exclusive, in either order, one of them seen from elsewhere too.
  void add_halves() {
    ModelledBuffer& to = any_of(objects_.buffers);
    ModelledLease& from = any_of(objects_.leases);
    if (from.text.empty()) allocate(from);
    if (to.text.size() + from.text.size() > kMaxObjectBytes) return;
    const size_t at = up_to(from.text.size());
    Lease back = from.lease.split_off(at);
    const bool front_is_view = byte() % 2 == 0, at_front = byte() % 2 == 0;
    View view = std::move(front_is_view ? from.lease : back).freeze();
    any_of(objects_.views) = {view.clone(), front_is_view ? from.text.substr(0, at) : from.text.substr(at)};
    const auto add = [&](auto half) {
      at_front ? to.buffer.prepend(std::move(half)) : to.buffer.append(std::move(half));
    };
    // Prepended, the one behind goes first.
    if (front_is_view != at_front) {
      add(std::move(view));
      add(std::move(front_is_view ? back : from.lease));
    } else {
      add(std::move(front_is_view ? back : from.lease));
      add(std::move(view));
    }
    const std::string front_mark(at, front_is_view ? '-' : 'x');
    const std::string back_mark(from.text.size() - at, front_is_view ? 'x' : '-');
    to.exclusive.insert(at_front ? 0 : to.exclusive.size(), front_mark + back_mark);
    to.text.insert(at_front ? 0 : to.text.size(), from.text);
    from = {};
  }
  void add_view() {
    ModelledBuffer& to = any_of(objects_.buffers);
    const ModelledView& from = any_of(objects_.views);
    if (to.text.size() + from.text.size() > kMaxObjectBytes) return;
    const bool at_front = byte() % 4 == 0;
    to.exclusive.insert(at_front ? 0 : to.exclusive.size(), from.text.size(), '-');
    to.text.insert(at_front ? 0 : to.text.size(), from.text);
    View view = from.view.clone();
    at_front ? to.buffer.prepend(std::move(view)) : to.buffer.append(std::move(view));
  }
  void add_buffer() {
    ModelledBuffer& to = any_of(objects_.buffers);
    add_buffer(to, any_of(objects_.buffers));
  }
  void add_buffer(ModelledBuffer& to, ModelledBuffer& from) {
    if (to.text.size() + from.text.size() > kMaxObjectBytes) return;
    to.buffer.append(std::move(from.buffer));
    if (&to == &from) return;
    to.text += std::exchange(from.text, {});
    to.exclusive += std::exchange(from.exclusive, {});
  }
  void append_text(ModelledBuffer& to, std::span<const std::byte> bytes) {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    // The tail of a view's chunk is written when nobody shares it, so these bytes are a view's then.
    const char exclusive = to.exclusive.empty() ? 'x' : to.exclusive.back();
    Pool& pool = any_of(pools_);
    const size_t windows = to.buffer.window_count(), refused = pool->stats().refused;
    const uint64_t before = copied_bytes;
    if (to.buffer.append_copy(*pool, bytes)) {
      may_copy_ = text.size();
      to.text += text;
      to.exclusive.append(text.size(), exclusive);
    } else {
      // What it wrote to fresh chunks before it ran into the budget was copied all the same.
      may_copy_ = copied_bytes - before;
      expect(may_copy_ <= text.size(), "more copied than there was");
      expect(to.buffer.window_count() == windows, "windows were appended in vain");
      expect(pool->stats().refused == refused + 1, "the refusal was not counted");
    }
  }
  void append_copy() {
    ModelledBuffer& to = any_of(objects_.buffers);
    const std::string text = fresh_text(any_size());
    if (to.text.size() + text.size() <= kMaxObjectBytes) append_text(to, std::as_bytes(std::span(text)));
  }
  void append_itself() {
    ModelledBuffer& to = any_of(objects_.buffers);
    if (to.buffer.empty() || to.text.size() > kMaxObjectBytes / 2) return;
    append_text(to, to.buffer.window(byte() % to.buffer.window_count()));
  }

  void trim_front() {
    ModelledBuffer& to = any_of(objects_.buffers);
    const size_t count = part_of(to.text.size());
    to.buffer.trim_front(count);
    to.text.erase(0, count);
    to.exclusive.erase(0, count);
  }
  void truncate() {
    ModelledBuffer& to = any_of(objects_.buffers);
    const size_t count = to.text.size() - part_of(to.text.size());
    to.buffer.truncate(count);
    to.text.resize(count);
    to.exclusive.resize(count);
  }
  void split_front() {
    ModelledBuffer& from = any_of(objects_.buffers);
    const size_t count = up_to(from.text.size());
    ModelledBuffer front{from.buffer.split_front(count), from.text.substr(0, count), from.exclusive.substr(0, count)};
    expect(front.buffer.size() == count, "split_front took another number of bytes");
    from.text.erase(0, count);
    from.exclusive.erase(0, count);
    store(std::move(front));
  }
  void clear() {
    ModelledBuffer& to = any_of(objects_.buffers);
    if (byte() % 4 != 0) return;
    to.buffer.clear();
    to.text.clear();
    to.exclusive.clear();
  }
  void clone() {
    ModelledBuffer& from = any_of(objects_.buffers);
    from.exclusive.assign(from.exclusive.size(), '-');
    ModelledBuffer copy{from.buffer.clone(), from.text, from.exclusive};
    store(std::move(copy));
  }
  // Instead of some buffer, or behind it.
  void store(ModelledBuffer&& modelled) {
    ModelledBuffer& to = any_of(objects_.buffers);
    byte() % 4 == 0 ? static_cast<void>(to = std::move(modelled)) : add_buffer(to, modelled);
  }
  void move_assign() {
    if (byte() % 2 != 0) return;
    ModelledBuffer& to = any_of(objects_.buffers);
    ModelledBuffer& from = any_of(objects_.buffers);
    to.buffer = std::move(from.buffer);
    if (&to == &from) return;
    to.text = std::exchange(from.text, {});
    to.exclusive = std::exchange(from.exclusive, {});
  }
  // Writes wherever it may. That nothing else changes is seen by check().
  void write_windows() {
    ModelledBuffer& to = any_of(objects_.buffers);
    size_t offset = 0;
    for (size_t i = 0; i < to.buffer.window_count(); ++i) {
      const std::span<std::byte> window = to.buffer.writable_window(i);
      if (!window.empty()) {
        expect(window.data() == to.buffer.window(i).data() && window.size() == to.buffer.window(i).size(),
               "a writable window is another than the readable one");
        const std::string text = fresh_text(window.size());
        std::memcpy(window.data(), text.data(), text.size());
        to.text.replace(offset, text.size(), text);
      }
      offset += to.buffer.window(i).size();
    }
  }

  void copy_out() {
    const ModelledBuffer& from = any_of(objects_.buffers);
    const size_t offset = up_to(from.text.size() + 2);
    std::string to(up_to(from.text.size() + 2), 0);
    const size_t copied = from.buffer.copy_out(offset, std::as_writable_bytes(std::span(to)));
    may_copy_ = copied;
    const std::string expected = offset < from.text.size() ? from.text.substr(offset, to.size()) : "";
    expect(copied == expected.size() && to.compare(0, copied, expected) == 0, "copy_out gave something else");
  }
  void fetch() {
    const ModelledBuffer& from = any_of(objects_.buffers);
    std::string scratch(up_to(from.text.size()), 0);
    const std::span<const std::byte> bytes =
        from.buffer.fetch(scratch.size(), std::as_writable_bytes(std::span(scratch)));
    const bool in_place = scratch.empty() || bytes.data() == from.buffer.window(0).data();
    expect(in_place == (scratch.empty() || from.buffer.window(0).size() >= scratch.size()), "fetch copied for nothing");
    may_copy_ = in_place ? 0 : scratch.size();
    check_text(bytes, std::string_view(from.text).substr(0, scratch.size()), "fetch gave something else");
  }
  void read_typed() {
    const ModelledBuffer& from = any_of(objects_.buffers);
    const size_t offset = up_to(from.text.size() + 2);
    Cursor cursor(from.buffer, offset);
    bool ok = offset <= from.text.size();
    size_t at = ok ? offset : 0;
    for (size_t reads = byte() % 6; reads > 0; --reads) {
      static constexpr size_t kSizes[] = {1, 2, 3, 4, 8};
      const size_t kind = byte() % std::size(kSizes), size = kSizes[kind];
      uint64_t expected = 0;
      ok = ok && size <= from.text.size() - at;
      if (ok) {
        for (size_t i = 0; i < size; ++i) expected = expected << 8 | static_cast<uint8_t>(from.text[at + i]);
        at += size;
      }
      const uint64_t values[] = {kind == 0 ? cursor.u8() : 0u, kind == 1 ? cursor.u16be() : 0u,
                                 kind == 2 ? cursor.u24be() : 0u, kind == 3 ? cursor.u32be() : 0u,
                                 kind == 4 ? cursor.u64be() : 0u};
      expect(values[kind] == expected, "a cursor read something else");
    }
    expect(cursor.ok() == ok && cursor.position() == at, "a cursor is somewhere else");
    expect(cursor.remaining() == from.text.size() - at, "a cursor has another number of bytes before it");
  }
  void fill_iovecs() {
    const ModelledBuffer& from = any_of(objects_.buffers);
    std::vector<iovec> iovecs(byte() % 12);
    const size_t filled = from.buffer.fill_iovecs(iovecs);
    expect(filled == std::min(iovecs.size(), from.buffer.window_count()), "another number of iovecs");
    for (size_t i = 0; i < filled; ++i) {
      const std::span<const std::byte> window = from.buffer.window(i);
      expect(iovecs[i].iov_base == window.data() && iovecs[i].iov_len == window.size(), "an iovec is no window");
    }
  }
  void settle() {
    ModelledBuffer& to = any_of(objects_.buffers);
    const size_t pinned = to.buffer.pinned_bytes();
    expect(pinned >= to.text.size(), "less is pinned than there is");
    if (!to.buffer.settle(*any_of(pools_))) return;
    may_copy_ = to.text.size();
    to.exclusive.assign(to.exclusive.size(), 'x');
    expect(to.buffer.window_count() == 1, "settled bytes lie in several windows");
    expect(2 * to.buffer.pinned_bytes() <= pinned, "settling freed less than half");
  }

  void change_pool() { current_ = byte() % (pools_.size() + 1); }
  void age_and_trim() {
    Pool& pool = any_of(pools_);
    switch (byte() % 4) {
      case 0:
        return pool->take_inbox();
      case 1:
        pool->trim(number());
        return;
      default:
        return pool->age();
    }
  }

  // The promises that hold after each step.

  void check() {
    ranges_.clear();
    for (ModelledBuffer& modelled : objects_.buffers) check_buffer(modelled);
    for (ModelledLease& modelled : objects_.leases) {
      check_text(modelled.lease.bytes(), modelled.text, "a lease's bytes changed");
      add_range(modelled.lease.bytes(), true);
    }
    for (const ModelledView& modelled : objects_.views) {
      check_text(modelled.view.bytes(), modelled.text, "a view's bytes changed");
      add_range(modelled.view.bytes(), false);
    }
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    // The range so far that ends last, of all and of the writable ones.
    const std::byte* end = nullptr;
    const std::byte* writable_end = nullptr;
    for (const Range& range : ranges_) {
      expect(range.begin >= (range.writable ? end : writable_end), "a writable range is somebody else's too");
      end = std::max(end, range.end);
      if (range.writable) writable_end = std::max(writable_end, range.end);
    }
  }
  void check_buffer(ModelledBuffer& modelled) {
    Buffer& buffer = modelled.buffer;
    expect(buffer.size() == modelled.text.size(), "a buffer's size is wrong");
    expect(buffer.empty() == modelled.text.empty(), "a buffer is empty, or not");
    expect((buffer.window_count() == 0) == modelled.text.empty(), "an empty buffer has windows");
    size_t offset = 0;
    for (size_t i = 0; i < buffer.window_count() && problem_.empty(); ++i) {
      const std::span<const std::byte> window = buffer.window(i);
      expect(!window.empty(), "a window is empty");
      expect(offset + window.size() <= modelled.text.size(), "the windows are more than the size");
      if (!problem_.empty()) return;
      check_text(window, std::string_view(modelled.text).substr(offset, window.size()), "a buffer's bytes changed");
      const bool writable = !buffer.writable_window(i).empty();
      const std::string_view exclusive = std::string_view(modelled.exclusive).substr(offset, window.size());
      expect(writable || exclusive.find('-') != std::string_view::npos, "bytes that nobody shares are not writable");
      add_range(window, writable);
      offset += window.size();
    }
    expect(offset == modelled.text.size(), "the windows are less than the size");
  }
  void check_text(std::span<const std::byte> bytes, std::string_view text, std::string_view what) {
    expect(bytes.size() == text.size() && (text.empty() || std::memcmp(bytes.data(), text.data(), text.size()) == 0),
           what);
  }
  void add_range(std::span<const std::byte> bytes, bool writable) {
    if (!bytes.empty()) ranges_.push_back({bytes.data(), bytes.data() + bytes.size(), writable});
  }

  std::span<const uint8_t> program_;
  size_t at_ = 0;
  size_t steps_ = 0;
  size_t operation_ = 0;
  size_t may_copy_ = 0;
  uint32_t next_byte_ = 1;
  std::string problem_;
  size_t current_ = 0;  // Which pool is the thread's; the number behind the last one stands for none.
  std::array<Pool, 2> pools_;
  Objects objects_;
  std::vector<Range> ranges_;
};

}  // namespace sluice::test
