// The special functions of one number on the GPU. Note [Special functions]
#pragma once

#include "iterlab/math_special.h"

#include <cmath>
#include <limits>

namespace iterlab::special {

// erfinv, erfcx and the quantile of the normal distribution are CUDA's own.
template <class T>
__host__ __device__ T erfinv(T x) {
  return ::erfinv(x);
}
template <class T>
__host__ __device__ T erfcx(T x) {
  return ::erfcx(x);
}
template <class T>
__host__ __device__ T ndtri(T x) {
  return ::normcdfinv(x);
}
template <class T>
__host__ __device__ T log_ndtr(T x) {
  const T t = x * T(0.70710678118654752440);
  return x < T(-1) ? std::log(::erfcx(-t) / 2) - t * t : std::log1p(-std::erfc(t) / 2);
}

// Note [Cephes]
// What follows, and zeta and the incomplete gamma functions in special_binary.cuh, are the
// functions of ATen/native/Math.h, which has them from the Cephes Math Library by Stephen L.
// Moshier (3-clause BSD licence) by way of SciPy: the same formulas and coefficients, so that a
// GPU's results follow ATen's.

inline constexpr double kPi = 3.14159265358979323846;

template <class T>
__host__ __device__ T digamma(T x) {
  if (x == T(0)) return std::copysign(std::numeric_limits<T>::infinity(), -x);
  T result = 0;
  if (x < T(0)) {  // reflection; the fraction is taken first, where pi * x would lose it
    if (x == std::trunc(x)) return std::numeric_limits<T>::quiet_NaN();
    const double fraction = static_cast<double>(x) - std::trunc(static_cast<double>(x));
    result = -static_cast<T>(kPi / std::tan(kPi * fraction));
    x = T(1) - x;
  }
  while (x < T(10)) {
    result -= T(1) / x;
    x += T(1);
  }
  if (x == T(10)) return result + T(2.25175258906672110764);
  T tail = 0;
  if (x < T(1.0e17)) {
    constexpr T kCoefficients[] = {T(8.33333333333333333333E-2), T(-2.10927960927960927961E-2),
                                   T(7.57575757575757575758E-3), T(-4.16666666666666666667E-3),
                                   T(3.96825396825396825397E-3), T(-8.33333333333333333333E-3),
                                   T(8.33333333333333333333E-2)};
    const T z = T(1) / (x * x);
    for (const T coefficient : kCoefficients) tail = tail * z + coefficient;
    tail *= z;
  }
  return result + std::log(x) - T(0.5) / x - tail;
}

template <class T>
__host__ __device__ T trigamma(T x) {
  T sign = 1, result = 0;
  if (x < T(0.5)) {
    sign = -1;
    const T sine = std::sin(T(kPi) * x);
    result -= T(kPi * kPi) / (sine * sine);
    x = T(1) - x;
  }
  for (int i = 0; i < 6; ++i) {
    result += T(1) / (x * x);
    x += T(1);
  }
  const T ixx = T(1) / (x * x);
  result += (T(1) + T(1) / (T(2) * x) +
             ixx * (T(1) / T(6) - ixx * (T(1) / T(30) - ixx * (T(1) / T(42))))) /
            x;
  return sign * result;
}

// A series of Chebyshev polynomials of x / 2, the coefficient of order zero last.
template <class T, int N>
__host__ __device__ inline T chebyshev(T x, const double (&coefficients)[N]) {
  T b0 = static_cast<T>(coefficients[0]), b1 = 0, b2 = 0;
  for (int i = 1; i < N; ++i) {
    b2 = b1;
    b1 = b0;
    b0 = x * b1 - b2 + static_cast<T>(coefficients[i]);
  }
  return T(0.5) * (b0 - b2);
}

// exp(-x) I0(x), of x >= 0: on [0, 8], and times sqrt(x) beyond.
template <class T>
__host__ __device__ inline T scaled_i0(T x) {
  constexpr double kNear[] = {
      -4.41534164647933937950E-18, 3.33079451882223809783E-17,  -2.43127984654795469359E-16,
      1.71539128555513303061E-15,  -1.16853328779934516808E-14, 7.67618549860493561688E-14,
      -4.85644678311192946090E-13, 2.95505266312963983461E-12,  -1.72682629144155570723E-11,
      9.67580903537323691224E-11,  -5.18979560163526290666E-10, 2.65982372468238665035E-9,
      -1.30002500998624804212E-8,  6.04699502254191894932E-8,   -2.67079385394061173391E-7,
      1.11738753912010371815E-6,   -4.41673835845875056359E-6,  1.64484480707288970893E-5,
      -5.75419501008210370398E-5,  1.88502885095841655729E-4,   -5.76375574538582365885E-4,
      1.63947561694133579842E-3,   -4.32430999505057594430E-3,  1.05464603945949983183E-2,
      -2.37374148058994688156E-2,  4.93052842396707084878E-2,   -9.49010970480476444210E-2,
      1.71620901522208775349E-1,   -3.04682672343198398683E-1,  6.76795274409476084995E-1};
  constexpr double kFar[] = {
      -7.23318048787475395456E-18, -4.83050448594418207126E-18, 4.46562142029675999901E-17,
      3.46122286769746109310E-17,  -2.82762398051658348494E-16, -3.42548561967721913462E-16,
      1.77256013305652638360E-15,  3.81168066935262242075E-15,  -9.55484669882830764870E-15,
      -4.15056934728722208663E-14, 1.54008621752140982691E-14,  3.85277838274214270114E-13,
      7.18012445138366623367E-13,  -1.79417853150680611778E-12, -1.32158118404477131188E-11,
      -3.14991652796324136454E-11, 1.18891471078464383424E-11,  4.94060238822496958910E-10,
      3.39623202570838634515E-9,   2.26666899049817806459E-8,   2.04891858946906374183E-7,
      2.89137052083475648297E-6,   6.88975834691682398426E-5,   3.36911647825569408990E-3,
      8.04490411014108831608E-1};
  if (x <= T(8)) return chebyshev(x / T(2) - T(2), kNear);
  return chebyshev(T(32) / x - T(2), kFar) / std::sqrt(x);
}

// exp(-x) I1(x), likewise; without the factor x on [0, 8].
template <class T>
__host__ __device__ inline T scaled_i1(T x) {
  constexpr double kNear[] = {
      2.77791411276104639959E-18,  -2.11142121435816608115E-17, 1.55363195773620046921E-16,
      -1.10559694773538630805E-15, 7.60068429473540693410E-15,  -5.04218550472791168711E-14,
      3.22379336594557470981E-13,  -1.98397439776494371520E-12, 1.17361862988909016308E-11,
      -6.66348972350202774223E-11, 3.62559028155211703701E-10,  -1.88724975172282928790E-9,
      9.38153738649577178388E-9,   -4.44505912879632808065E-8,  2.00329475355213526229E-7,
      -8.56872026469545474066E-7,  3.47025130813767847674E-6,   -1.32731636560394358279E-5,
      4.78156510755005422638E-5,   -1.61760815825896745588E-4,  5.12285956168575772895E-4,
      -1.51357245063125314899E-3,  4.15642294431288815669E-3,   -1.05640848946261981558E-2,
      2.47264490306265168283E-2,   -5.29459812080949914269E-2,  1.02643658689847095384E-1,
      -1.76416518357834055153E-1,  2.52587186443633654823E-1};
  constexpr double kFar[] = {
      7.51729631084210481353E-18,  4.41434832307170791151E-18,  -4.65030536848935832153E-17,
      -3.20952592199342395980E-17, 2.96262899764595013876E-16,  3.30820231092092828324E-16,
      -1.88035477551078244854E-15, -3.81440307243700780478E-15, 1.04202769841288027642E-14,
      4.27244001671195135429E-14,  -2.10154184277266431302E-14, -4.08355111109219731823E-13,
      -7.19855177624590851209E-13, 2.03562854414708950722E-12,  1.41258074366137813316E-11,
      3.25260358301548823856E-11,  -1.89749581235054123450E-11, -5.58974346219658380687E-10,
      -3.83538038596423702205E-9,  -2.63146884688951950684E-8,  -2.51223623787020892529E-7,
      -3.88256480887769039346E-6,  -1.10588938762623716291E-4,  -9.76109749136146840777E-3,
      7.78576235018280120474E-1};
  if (x <= T(8)) return chebyshev(x / T(2) - T(2), kNear) * x;
  return chebyshev(T(32) / x - T(2), kFar) / std::sqrt(x);
}

template <class T>
__host__ __device__ T i0e(T x) {
  return scaled_i0(std::fabs(x));
}
template <class T>
__host__ __device__ T i0(T x) {
  return std::exp(std::fabs(x)) * scaled_i0(std::fabs(x));
}
template <class T>
__host__ __device__ T i1e(T x) {
  const T magnitude = scaled_i1(std::fabs(x));
  return x < T(0) ? -magnitude : magnitude;
}
template <class T>
__host__ __device__ T i1(T x) {
  const T magnitude = std::exp(std::fabs(x)) * scaled_i1(std::fabs(x));
  return x < T(0) ? -magnitude : magnitude;
}

// The Hurwitz zeta function: the sum of (k + q)^-x, by Euler and Maclaurin.
template <class T>
__host__ __device__ T zeta(T x, T q) {
  constexpr double kDivisors[] = {12.0,
                                  -720.0,
                                  30240.0,
                                  -1209600.0,
                                  47900160.0,
                                  -1.8924375803183791606e9,
                                  7.47242496e10,
                                  -2.950130727918164224e12,
                                  1.1646782814350067249e14,
                                  -4.5979787224074726105e15,
                                  1.8152105401943546773e17,
                                  -7.1661652561756670113e18};
  constexpr T kEpsilon = T(1.11022302462515654042E-16);
  if (x == T(1)) return std::numeric_limits<T>::infinity();
  if (x < T(1)) return std::numeric_limits<T>::quiet_NaN();
  if (q <= T(0)) {
    if (q == std::floor(q)) return std::numeric_limits<T>::infinity();
    if (x != std::floor(x)) return std::numeric_limits<T>::quiet_NaN();
  }
  T sum = std::pow(q, -x), a = q, b = 0;
  for (int i = 0; i < 9 || a <= T(9); ++i) {
    a += T(1);
    b = std::pow(a, -x);
    sum += b;
    if (-kEpsilon * sum < b && b < kEpsilon * sum) return sum;
  }
  const T w = a;
  sum += b * w / (x - T(1));
  sum -= T(0.5) * b;
  T factor = 1, k = 0;
  for (const double divisor : kDivisors) {
    factor *= x + k;
    b /= w;
    const T term = factor * b / static_cast<T>(divisor);
    sum += term;
    if (std::fabs(term / sum) < kEpsilon) return sum;
    k += T(1);
    factor *= x + k;
    b /= w;
    k += T(1);
  }
  return sum;
}

template <class T>
__host__ __device__ T polygamma(T x, int n) {
  return (n % 2 != 0 ? T(1) : T(-1)) * std::exp(std::lgamma(static_cast<T>(n) + T(1))) *
         zeta(static_cast<T>(n + 1), x);
}

}  // namespace iterlab::special
