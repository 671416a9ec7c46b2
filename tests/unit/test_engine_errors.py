"""What a person reads of an exception in the compiler."""

from __future__ import annotations

from torch._inductor.exc import CppCompileError

from compiler_service.engine.errors import in_words


def test_a_cpp_compilers_complaint_is_told_and_not_its_command_line() -> None:
    output = (
        "model.cpp: In function 'int f()':\nmodel.cpp:7:9: error: 'x' was not declared\n  7 | x"
    )
    error = CppCompileError(["g++", *(f"-I/somewhere/{n}" for n in range(900))], output)
    words = in_words(error)
    assert "model.cpp:7:9: error: 'x' was not declared" in words
    assert "-I/somewhere" not in words


def test_a_cpp_compiler_that_says_nothing_of_an_error_is_told_whole() -> None:
    words = in_words(CppCompileError(["g++", "model.cpp"], "g++: killed"))
    assert "g++ model.cpp" in words
    assert "g++: killed" in words
