// The special functions of one number on the CPU: ATen/native/Math.h's. Note [Special functions]
#pragma once

#include "iterlab/math_special.h"

#include <ATen/native/Math.h>

namespace iterlab::special {

template <class T>
T erfinv(T x) {
  return ::calc_erfinv(x);
}
template <class T>
T digamma(T x) {
  return ::calc_digamma(x);
}
template <class T>
T trigamma(T x) {
  return ::trigamma(x);
}
template <class T>
T polygamma(T x, int n) {
  return ::calc_polygamma(x, n);
}
template <class T>
T i0(T x) {
  return ::calc_i0(x);
}
template <class T>
T i0e(T x) {
  return ::calc_i0e(x);
}
template <class T>
T i1(T x) {
  return ::calc_i1(x);
}
template <class T>
T i1e(T x) {
  return ::calc_i1e(x);
}
template <class T>
T erfcx(T x) {
  return ::calc_erfcx(x);
}
template <class T>
T ndtri(T x) {
  return ::calc_ndtri(x);
}
template <class T>
T log_ndtr(T x) {
  return ::calc_log_ndtr(x);
}

}  // namespace iterlab::special
