// Dims: a list of up to kMaxDims integers in place, for shapes and strides. Copies only what it
// holds.
#pragma once

#include "iterlab/config.h"

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace iterlab {

// Holds sizes in elements, or strides in bytes or elements as the name of the variable says. Never
// allocates.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values)
      : Dims(std::span<const int64_t>(values.begin(), values.size())) {}
  explicit Dims(std::span<const int64_t> values) {
    assign(values.data(), static_cast<int>(values.size()));
  }
  Dims(int size, int64_t value) : size_(size) {
    for (int i = 0; i < size; ++i) data_[i] = value;
  }
  Dims(const Dims& other) { assign(other.data_, other.size_); }
  Dims& operator=(const Dims& other) {
    assign(other.data_, other.size_);
    return *this;
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t& operator[](int i) { return data_[i]; }
  int64_t operator[](int i) const { return data_[i]; }
  int64_t* begin() { return data_; }
  int64_t* end() { return data_ + size_; }
  const int64_t* begin() const { return data_; }
  const int64_t* end() const { return data_ + size_; }
  const int64_t* data() const { return data_; }
  void push_back(int64_t value) { data_[size_++] = value; }
  void resize(int size) { size_ = size; }
  std::span<const int64_t> span() const { return {data_, static_cast<size_t>(size_)}; }

  bool operator==(const Dims& other) const {
    return size_ == other.size_ &&
           std::memcmp(data_, other.data_, sizeof(int64_t) * static_cast<size_t>(size_)) == 0;
  }

 private:
  void assign(const int64_t* values, int size) {
    size_ = size;
    std::memmove(data_, values, sizeof(int64_t) * static_cast<size_t>(size));
  }

  int size_ = 0;
  int64_t data_[kMaxDims];
};

// Dims for real sizes, a vector for symbolic ones.
template <class Int>
using DimsOf = std::conditional_t<std::is_same_v<Int, int64_t>, Dims, std::vector<Int>>;

inline int64_t numel(const Dims& sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

// "[2, 3]", as torch prints a shape.
inline std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (int i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

}  // namespace iterlab
