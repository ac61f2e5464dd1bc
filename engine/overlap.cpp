// Memory overlap, decided exactly where a bounded search can.
#include "engine/overlap.h"

#include "engine/order.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace iterlab {
namespace {

// One term of a bounded linear equation: coefficient * x with 0 <= x <= bound.
struct Term {
  int64_t coefficient;
  int64_t bound;
};

struct Equation {
  std::array<Term, 2 * kMaxDims + 2> terms;
  int size = 0;
  void add(int64_t coefficient, int64_t bound) {
    if (coefficient != 0 && bound > 0) terms[static_cast<size_t>(size++)] = {coefficient, bound};
  }
};

// Note [Exact overlap]
// Two strided operands share a byte if and only if
//     sum(stride_a * i) - sum(stride_b * j) + x - y = address_b - address_a
// has a solution with the indices in range and x, y within an element. With a reflected index (i ->
// size-1-i) all coefficients are positive, and the question is a bounded subset sum, NP-hard in
// general but easy for real strides: with terms sorted from the largest coefficient, the remaining
// sum must lie in [0, what the smaller terms can reach] and be a multiple of their gcd, which
// leaves a handful of values for each term. The search counts its steps and gives up after
// kSearchSteps.
constexpr int kSearchSteps = 100'000;

struct Search {
  const Equation& equation;
  std::array<int64_t, 2 * kMaxDims + 3> reach;    // largest sum of the terms from i on
  std::array<int64_t, 2 * kMaxDims + 3> divisor;  // gcd of their coefficients
  int steps = 0;

  explicit Search(const Equation& sorted) : equation(sorted) {
    const auto n = static_cast<size_t>(equation.size);
    reach[n] = 0;
    divisor[n] = 0;
    for (size_t i = n; i-- > 0;) {
      const Term& term = equation.terms[i];
      reach[i] = reach[i + 1] + term.coefficient * term.bound;
      divisor[i] = std::gcd(divisor[i + 1], term.coefficient);
    }
  }

  Overlap solve(size_t i, int64_t target) {
    if (target < 0 || target > reach[i]) return Overlap::None;
    if (i == static_cast<size_t>(equation.size))
      return target == 0 ? Overlap::Partial : Overlap::None;
    if (target % divisor[i] != 0) return Overlap::None;
    const Term& term = equation.terms[i];
    const int64_t most = std::min(term.bound, target / term.coefficient);
    const int64_t rest = target - reach[i + 1];
    const int64_t least = rest > 0 ? (rest + term.coefficient - 1) / term.coefficient : 0;
    for (int64_t x = most; x >= least; --x) {
      if (++steps > kSearchSteps) return Overlap::Unknown;
      const Overlap found = solve(i + 1, target - x * term.coefficient);
      if (found != Overlap::None) return found;
    }
    return Overlap::None;
  }
};

Overlap solve(Equation& equation, int64_t target) {
  std::sort(equation.terms.begin(), equation.terms.begin() + equation.size,
            [](const Term& a, const Term& b) { return a.coefficient > b.coefficient; });
  return Search(equation).solve(0, target);
}

bool is_empty(const Operand& operand) {
  return std::find(operand.sizes.begin(), operand.sizes.end(), 0) != operand.sizes.end();
}

// First byte and one past the last byte. Strides of torch tensors are never negative.
std::pair<int64_t, int64_t> byte_range(const Operand& operand) {
  const int64_t element = element_size(operand.dtype);
  int64_t span = element;
  for (size_t d = 0; d < operand.sizes.size(); ++d)
    span += (operand.sizes[d] - 1) * operand.strides[d] * element;
  const auto first = static_cast<int64_t>(reinterpret_cast<intptr_t>(operand.data));
  return {first, first + span};
}

bool same_elements(const Operand& a, const Operand& b) {
  if (a.data != b.data || a.dtype != b.dtype || a.sizes.size() != b.sizes.size()) return false;
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.sizes[d] != b.sizes[d]) return false;
    if (a.sizes[d] != 1 && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

}  // namespace

Overlap internal_overlap(const Operand& operand) {
  if (is_empty(operand) || is_dense(operand.sizes, operand.strides)) return Overlap::None;
  // Sorted by stride, each dim steps over all that the faster ones span: the usual case of a slice.
  std::array<std::pair<int64_t, int64_t>, kMaxDims> dims;  // stride, size
  size_t n = 0;
  for (size_t d = 0; d < operand.sizes.size(); ++d) {
    if (operand.sizes[d] == 1) continue;
    if (operand.strides[d] == 0) return Overlap::Partial;
    dims[n++] = {operand.strides[d], operand.sizes[d]};
  }
  std::sort(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(n));
  int64_t span = 0;
  bool nested = true;
  for (size_t i = 0; i < n && nested; ++i) {
    nested = dims[i].first > span;
    span += dims[i].first * (dims[i].second - 1);
  }
  if (nested) return Overlap::None;
  // Two different indices at one address: their difference d, with |d_k| < size_k, has sum(stride *
  // d) = 0. Looked for with the slowest differing dim k fixed to a positive difference, the others
  // shifted to be non-negative.
  for (size_t k = 0; k < n; ++k) {
    Equation equation;
    int64_t target = -dims[k].first;  // difference of dim k is 1 + x
    equation.add(dims[k].first, dims[k].second - 2);
    for (size_t j = 0; j < k; ++j) {
      equation.add(dims[j].first, 2 * (dims[j].second - 1));
      target += dims[j].first * (dims[j].second - 1);
    }
    const Overlap found = solve(equation, target);
    if (found != Overlap::None) return found;
  }
  return Overlap::None;
}

Overlap overlap(const Operand& a, const Operand& b) {
  if (is_empty(a) || is_empty(b)) return Overlap::None;
  if (same_elements(a, b)) return Overlap::Full;
  const auto [a_first, a_end] = byte_range(a);
  const auto [b_first, b_end] = byte_range(b);
  if (a_end <= b_first || b_end <= a_first) return Overlap::None;
  if (is_dense(a.sizes, a.strides) && is_dense(b.sizes, b.strides)) return Overlap::Partial;
  // Note [Exact overlap]: indices of `b` are reflected, so that every coefficient is positive.
  Equation equation;
  const int64_t a_element = element_size(a.dtype), b_element = element_size(b.dtype);
  for (size_t d = 0; d < a.sizes.size(); ++d)
    equation.add(a.strides[d] * a_element, a.sizes[d] - 1);
  for (size_t d = 0; d < b.sizes.size(); ++d)
    equation.add(b.strides[d] * b_element, b.sizes[d] - 1);
  equation.add(1, a_element - 1);
  equation.add(1, b_element - 1);
  return solve(equation, b_end - 1 - a_first);
}

void check_overlap(const Operands& operands, const OpInfo& op) {
  for (int o = 0; o < operands.num_outputs; ++o) {
    const Operand& output = operands.output(o);
    if (output.output_kind == OutputKind::Allocated || output.data == nullptr) continue;
    if (const Overlap found = internal_overlap(output); found != Overlap::None) {
      throw PlanError(PlanError::Kind::Runtime, op,
                      std::string("expected an output whose elements lie apart, got one with ") +
                          (found == Overlap::Partial ? "" : "perhaps ") +
                          "several elements at one memory location (expanded?); clone() it first");
    }
    const auto must_not_share = [&](const Operand& other, const char* what, int index) {
      const Overlap found = overlap(output, other);
      if (found == Overlap::None || found == Overlap::Full) return;
      throw PlanError(
          PlanError::Kind::Runtime, op,
          std::string(
              "expected an output apart from the operands or equal to one, got one that shares ") +
              (found == Overlap::Partial ? "some" : "perhaps some") + " memory with " + what + " " +
              std::to_string(index) + "; clone() one of them first");
    };
    for (int i = 0; i < operands.num_inputs; ++i) {
      if (operands.input(i).data != nullptr) must_not_share(operands.input(i), "input", i);
    }
    for (int other = 0; other < o; ++other) {
      if (operands.output(other).data == nullptr) continue;
      must_not_share(operands.output(other), "output", other);
      if (overlap(output, operands.output(other)) == Overlap::Full) {
        throw PlanError(PlanError::Kind::Runtime, op,
                        "expected outputs apart from each other, got one tensor for two of them");
      }
    }
  }
}

}  // namespace iterlab
