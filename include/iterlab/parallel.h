// How the engine gets threads: a range and a body, run by whoever owns the thread pool.
#pragma once

#include <cstdint>
#include <type_traits>

namespace iterlab {

// A reference to a callable body(begin, end); does not own it.
class RangeBody {
 public:
  template <class Fn, class = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<Fn>, RangeBody>>>
  explicit(false) RangeBody(const Fn& fn)
      : object_(&fn), call_([](const void* object, int64_t begin, int64_t end) {
          (*static_cast<const Fn*>(object))(begin, end);
        }) {}
  void operator()(int64_t begin, int64_t end) const { call_(object_, begin, end); }

 private:
  const void* object_;
  void (*call_)(const void*, int64_t, int64_t);
};

// Runs `body` over disjoint pieces that cover [0, count), each at least `grain` long but for the
// last. Null: serial.
struct Parallel {
  int threads = 1;
  void (*run)(int64_t count, int64_t grain, RangeBody body) = nullptr;
};

}  // namespace iterlab
