// Expr is Var with its parts hidden.
#ifndef TRAINRT_RUNTIME_EXTEND_EXPR_VAR_H_
#define TRAINRT_RUNTIME_EXTEND_EXPR_VAR_H_

#include <vector>

#include "graph/builder.h"
#include "trainrt/expr.h"

namespace trainrt {

inline Var var_of(Expr e) { return e ? Var(e.builder(), ValueId{e.id()}) : Var(); }
/// Throws Error(kUsage) when it is absent.
Var need_var(Expr e);
inline Expr expr_of(Var v) { return v ? Expr(&v.builder(), v.id().index) : Expr(); }

std::vector<Var> vars_of(std::span<const Expr> list);
std::vector<Expr> exprs_of(std::span<const Var> list);

}  // namespace trainrt

#endif  // TRAINRT_RUNTIME_EXTEND_EXPR_VAR_H_
