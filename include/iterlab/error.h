// The errors that planning raises: a kind, which the PyTorch door turns into the exception that
// ATen raises, and a text.
#pragma once

#include "iterlab/op.h"

#include <stdexcept>
#include <string>

namespace iterlab {

class PlanError : public std::runtime_error {
 public:
  using Kind = ErrorKind;

  // Reads "iterlab::add: expected ..., got ...".
  PlanError(Kind kind, const OpInfo& op, const std::string& what)
      : std::runtime_error("iterlab::" + std::string(op.name) + ": " + what), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

}  // namespace iterlab
