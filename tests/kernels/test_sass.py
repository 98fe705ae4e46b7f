"""Simulation of one thread's machine code."""

from __future__ import annotations

import pytest

from tools.machine_code.sass import SassCode, SassRegisters, SassThread

LOOP = """
.text.kernel:
        /*0000*/                   LDC R0, c[0x0][0x210] ;
        /*0010*/                   IMAD.MOV.U32 R2, RZ, RZ, RZ ;
        /*0020*/                   LDG.E R6, desc[UR4][R4.64+0x8] ;
.L_x_1:
        /*0030*/                   IADD3 R2, R2, 0x1, RZ ;
        /*0040*/                   FMUL R7, R6, R6 ;
        /*0050*/                   FSETP.GT.AND P1, PT, R7, RZ, PT ;
        /*0060*/               @P1 BRA `(.L_x_2) ;
        /*0070*/                   STG.E desc[UR4][R8.64], R7 ;
.L_x_2:
        /*0080*/                   ISETP.GE.U32.AND P0, PT, R2, R0, PT ;
        /*0090*/              @!P0 BRA `(.L_x_1) ;
        /*00a0*/                   EXIT ;
"""
JUMP = """
.text.kernel:
        /*0000*/                   S2R R0, SR_CTAID.Y ;
        /*0010*/                   IMAD.SHL.U32 R0, R0, 0x4, RZ ;
        /*0020*/                   LDC R2, c[0x2][R0] ;
        /*0030*/                   SHF.R.S32.HI R3, RZ, 0x1f, R2 ;
        /*0040*/                   BRX R2 -0x50                    (*"BRANCH_TARGETS .L_x_1,.L_x_2"*);
.L_x_1:
        /*0050*/                   EXIT ;
.L_x_2:
        /*0060*/                   NOP ;
        /*0070*/                   EXIT ;
"""


def thread(text: str, constants: dict[tuple[int, int], int], **special: int) -> SassThread:
    return SassThread(
        SassCode.parse(text), SassRegisters(constants, {}, {f"SR_{name}": value for name, value in special.items()})
    )


@pytest.mark.parametrize("times", [1, 3])
def test_a_loop_is_followed_as_often_as_it_runs(times: int) -> None:
    one = thread(LOOP, {(0, 0x210): times})
    assert (one.run(), one.n_writes) == (3 + 7 * times + 1, times)


def test_a_loop_that_depends_on_a_number_is_refused() -> None:
    one = thread(LOOP.replace("ISETP.GE.U32.AND P0, PT, R2, R0, PT", "FSETP.GT.AND P0, PT, R7, RZ, PT"), {})
    with pytest.raises(ValueError, match="0x90: a loop depends on an unknown value"):
        one.run()


@pytest.mark.parametrize(("group", "steps"), [(0, 6), (1, 7)])
def test_a_table_of_jumps_is_followed(group: int, steps: int) -> None:
    assert thread(JUMP, {(2, 0): 0x50, (2, 4): 0x60}, **{"CTAID.Y": group}).run() == steps


def arithmetic(text: str, registers: dict[str, int], *found: str) -> list[int | bool | None]:
    one = thread(f".text.kernel:\n        /*0000*/                   {text} ;\n        /*0010*/    EXIT ;\n", {})
    one.known.words.update(registers)
    one.run()
    return [one.known.predicates.get(name) if "P" in name else one.known.words.get(name) for name in found]


def test_carries_and_wide_products_are_those_of_64_bits() -> None:
    assert arithmetic("IADD3 R0, P0, R1, R2, RZ", {"R1": 2**32 - 1, "R2": 2}, "R0", "P0") == [1, True]
    assert arithmetic("IADD3 R0, P0, -R1, R2, RZ", {"R1": 3, "R2": 2}, "R0", "P0") == [2**32 - 1, False]
    assert arithmetic("IADD3 R0, P0, -R1, R2, RZ", {"R1": 0, "R2": 2}, "R0", "P0") == [2, True]
    wide = {"R2": 2**32 - 2, "R3": 4, "R4": 5, "R5": 1}
    assert arithmetic("IMAD.WIDE.U32 R0, R2, R3, R4", wide, "R0", "R1") == [2**32 - 3, 4]
    assert arithmetic("IMAD.WIDE R0, R2, R3, R4", wide, "R0", "R1") == [2**32 - 3, 0]
    assert arithmetic("LEA.HI.X R0, R1, R2, R3, 0x2, P6", {"R1": 3 << 30, "R2": 7, "R3": 1}, "R0") == [None]
    assert arithmetic("LEA.HI.X R0, R1, R2, R3, 0x2, PT", {"R1": 3 << 30, "R2": 7, "R3": 1}, "R0") == [15]
    assert arithmetic("PRMT R0, R1, 0x9910, RZ", {"R1": 0x8055}, "R0") == [0xFFFF8055]


def test_predicates_in_a_register_are_followed() -> None:
    assert arithmetic("R2P PR, R1, 0xa", {"R1": 0b1000}, "P1", "P3") == [False, True]
    text = ".text.kernel:\n        /*0000*/   R2P PR, R1, 0xa ;\n        /*0010*/   P2R R2, PR, R3, 0x8 ;\n"
    one = thread(f"{text}        /*0020*/    EXIT ;\n", {})
    one.known.words.update({"R1": 0b1000, "R3": 0b111})
    one.run()
    assert one.known.words["R2"] == 0b1111


def test_an_address_of_turing_is_a_pair_of_registers() -> None:
    text = ".text.kernel:\n        /*0000*/    LDG.E.SYS R2, [R4+0x8] ;\n        /*0010*/    EXIT ;\n"
    one = thread(text, {})
    one.known.memory = {1 << 32: bytes(8) + (7).to_bytes(4, "little")}
    one.known.words.update({"R4": 0, "R5": 1})
    one.run()
    assert one.known.words["R2"] == 7
