"""The datasets of the paper, and one of images for tests.

The sha256 of a published file is stated where it is publicly known. Where it is not, the file is known again by its
rows, its features and the sizes of its classes.
"""

import string
from difflib import get_close_matches

from whvi.errors import ArgumentError
from whvi_paper.data import formats
from whvi_paper.data.dataset import Dataset, File
from whvi_paper.data.gratings import CLASSES, Gratings
from whvi_paper.data.simulators import SIMULATORS
from whvi_paper.data.table import DatasetKind

UCI_FILES = "https://archive.ics.uci.edu/ml/machine-learning-databases"
UCI_PAGES = "https://archive.ics.uci.edu/dataset"
SIMULATOR_PAGES = "https://www.sfu.ca/~ssurjano"
BY = "CC BY 4.0"


def words(text: str) -> tuple[str, ...]:
    """Names between spaces."""
    return tuple(text.split())


def numbered(prefix: str, *numbers: int, digits: int = 1) -> tuple[str, ...]:
    """Names that differ by a number.

    >>> numbered("f", *range(9, 11), digits=2)
    ('f09', 'f10')
    """
    return tuple(f"{prefix}{number:0{digits}}" for number in numbers)


MINIBOO_FEATURES = numbered("ParticleID_", *range(50))
DRIVE_CLASSES = numbered("", *range(1, 12))
MOCAP_FEATURES = ("User", *(f"{axis}{marker}" for marker in range(12) for axis in "XYZ"))

REGRESSION = (
    Dataset(
        "boston", DatasetKind.REGRESSION, 506,
        words("CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT"), words("MEDV"),
        "not stated", "http://lib.stat.cmu.edu/datasets/boston",
        (
            File("boston.npz", formats.npz, "8a18bf191100a13c51e4abf92c30c942bd40edd912c39704cd11a13a5abc5976"),
            File(
                "housing.data", formats.numbers, "baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a",
                f"{UCI_FILES}/housing/housing.data",
            ),
        ),
    ),
    Dataset(
        "concrete", DatasetKind.REGRESSION, 1030,
        words("Cement BlastFurnaceSlag FlyAsh Water Superplasticizer CoarseAggregate FineAggregate Age"),
        words("CompressiveStrength_MPa"), BY, f"{UCI_PAGES}/165/concrete+compressive+strength",
        (
            File("concrete.npz", formats.npz, "d92d340b3613a96f769de07694511689316e4437ff63d16de742078771f79932"),
            File(
                "Concrete_Data.xls", formats.concrete,
                "710076c66b9ca3f8050e7942f3dcbdbe04013534daeb0077ffd3079a52d8e0c4",
                f"{UCI_FILES}/concrete/compressive/Concrete_Data.xls",
            ),
        ),
    ),
    Dataset(
        "energy", DatasetKind.REGRESSION, 768,
        words("RelativeCompactness SurfaceArea WallArea RoofArea OverallHeight Orientation GlazingArea")
        + words("GlazingAreaDistribution"),
        words("HeatingLoad CoolingLoad"), BY, f"{UCI_PAGES}/242/energy+efficiency",
        (
            File("energy.npz", formats.npz, "9ae46a6be159c98c93ce802fa23f7d55c2bbdfed24d56e854b9f2209f3c47151"),
            File(
                "ENB2012_data.xlsx", formats.energy, "0089fcffc1415e41e2ff63730cca5280efe54fc43d722dfde1b0aaa808e35dc4",
                f"{UCI_FILES}/00242/ENB2012_data.xlsx",
            ),
        ),
    ),
    Dataset(
        "kin8nm", DatasetKind.REGRESSION, 8192, numbered("theta", *range(1, 9)), words("y"),
        "public", "https://www.openml.org/d/189",
        (
            File("kin8nm.npz", formats.npz, "ade109c0be7fde0a003dc287566425a8aa18a042405554eeaf379ec05f5501f0"),
            File(
                "kin8nm.csv", formats.kin8nm, "7b9bf0301ac936d88122557a151e1ba8f1ebc278fcf46d9f3c6d462debdbc8ad",
                "https://www.openml.org/data/get_csv/3626/dataset_2175_kin8nm.arff",
            ),
        ),
    ),
    Dataset(
        "naval", DatasetKind.REGRESSION, 11934,
        words("LeverPosition_lp ShipSpeed_v GTShaftTorque_GTT GTRateOfRevolutions_GTn")
        + words("GasGeneratorRateOfRevolutions_GGn StarboardPropellerTorque_Ts PortPropellerTorque_Tp")
        + words("HPTurbineExitTemperature_T48 GTCompressorInletAirTemperature_T1")
        + words("GTCompressorOutletAirTemperature_T2 HPTurbineExitPressure_P48")
        + words("GTCompressorInletAirPressure_P1 GTCompressorOutletAirPressure_P2 GTExhaustGasPressure_Pexh")
        + words("TurbineInjectionControl_TIC FuelFlow_mf"),
        words("GTCompressorDecay_kMc GTTurbineDecay_kMt"),
        BY, f"{UCI_PAGES}/316/condition+based+maintenance+of+naval+propulsion+plants",
        (
            File("naval.npz", formats.npz, "c96ac65f8e1aff623ccd80c1f010f544940a88e9d9a6472dcdca0737f17a0403"),
            File(
                "UCI CBM Dataset.zip", formats.naval,
                "91a3815da80b5ab7e2d5b82ac82f1c2cbf89182c7a65bcdf240db1e014423cb9",
                f"{UCI_FILES}/00316/UCI%20CBM%20Dataset.zip",
            ),
        ),
        note="two features, T1 and P1, are constant",
    ),
    Dataset(
        "powerplant", DatasetKind.REGRESSION, 9568, words("AT V AP RH"), words("PE"),
        BY, f"{UCI_PAGES}/294/combined+cycle+power+plant",
        (
            File("powerplant.npz", formats.npz, "124cdc7be767e089d4fb0af6b39a0b8385994f7c3ffecb7b6c36d992d4f7e235"),
            File(
                "CCPP.zip", formats.powerplant, "cc7b2a4977c0a44e8221c91d9a7e5746b3c68186cff7e5c61c70af6432b98c7a",
                f"{UCI_FILES}/00294/CCPP.zip",
            ),
        ),
        note="in the order of the fifth sheet of the workbook",
    ),
    Dataset(
        "protein", DatasetKind.REGRESSION, 45730, numbered("F", *range(1, 10)), words("RMSD"),
        BY, f"{UCI_PAGES}/265/physicochemical+properties+of+protein+tertiary+structure",
        (
            File("protein.npz", formats.npz, "9f6ace757bd0f0cc9965b0c66c79c2d7c7e8d224f65bd2ae0085faf343461bec"),
            File(
                "CASP.csv", formats.protein, "4277cfcb4e91a181746cbc654f001b57951c9e6a80f4f795fdb5c807e0848f40",
                f"{UCI_FILES}/00265/CASP.csv",
            ),
        ),
    ),
    Dataset(
        "yacht", DatasetKind.REGRESSION, 308,
        words("LongitudinalPositionOfBuoyancy PrismaticCoefficient LengthDisplacementRatio BeamDraughtRatio")
        + words("LengthBeamRatio FroudeNumber"),
        words("ResiduaryResistance"), BY, f"{UCI_PAGES}/243/yacht+hydrodynamics",
        (
            File("yacht.npz", formats.npz, "5b869c488671cf53d9be660d84f389453a721dc4b29c0d8b44603cbf85da9e4d"),
            File(
                "yacht_hydrodynamics.data", formats.numbers,
                "00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
                f"{UCI_FILES}/00243/yacht_hydrodynamics.data",
            ),
        ),
    ),
)  # fmt: skip

CLASSIFICATION = (
    Dataset(
        "eeg", DatasetKind.CLASSIFICATION, 14980, words("AF3 F7 F3 FC5 T7 P7 O1 O2 P8 T8 FC6 F4 F8 AF4"),
        words("eye-open eye-closed"), BY, f"{UCI_PAGES}/264/eeg+eye+state",
        (
            File("eeg.npz", formats.npz, "12873eb9c1294fabbf9b776e74501ac51b409f784e1813c43f5fb55d39086113"),
            File("EEG Eye State.arff", formats.eeg, None, f"{UCI_FILES}/00264/EEG%20Eye%20State.arff"),
        ),
        class_sizes=(8257, 6723),
        note="a few readings are broken, up to 715897; use the scaling 'clipped'",
    ),
    Dataset(
        "magic", DatasetKind.CLASSIFICATION, 19020,
        words("fLength fWidth fSize fConc fConc1 fAsym fM3Long fM3Trans fAlpha fDist"),
        ("g (gamma, signal)", "h (hadron, background)"), BY, f"{UCI_PAGES}/159/magic+gamma+telescope",
        (
            File("magic.npz", formats.npz, "4df18d79204c05c59f88eeb651f64585705de2869a2435b3fe213164a2b319c2"),
            File("magic04.data", formats.magic, None, f"{UCI_FILES}/magic/magic04.data"),
        ),
        class_sizes=(12332, 6688),
    ),
    Dataset(
        "letter", DatasetKind.CLASSIFICATION, 20000,
        words("x-box y-box width high onpix x-bar y-bar x2bar y2bar xybar x2ybr xy2br x-ege xegvy y-ege yegvx"),
        tuple(string.ascii_uppercase), BY, f"{UCI_PAGES}/59/letter+recognition",
        (
            File("letter.npz", formats.npz, "828e5c14852a5f1a236f2d8e7d5aab0e621193c10b5a1e23d31d9510c5e171f6"),
            File(
                "letter-recognition.data", formats.letter,
                "2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2",
                f"{UCI_FILES}/letter-recognition/letter-recognition.data",
            ),
        ),
    ),
    Dataset(
        "miniboo", DatasetKind.CLASSIFICATION, 130064, MINIBOO_FEATURES, words("signal background"),
        BY, f"{UCI_PAGES}/199/miniboone+particle+identification",
        (File("MiniBooNE_PID.txt", formats.miniboo, None, f"{UCI_FILES}/00199/MiniBooNE_PID.txt"),),
        class_sizes=(36499, 93565),
        note="some records are -999 throughout; they stay, as the paper counts them",
    ),
    Dataset(
        "drive", DatasetKind.CLASSIFICATION, 58509, numbered("f", *range(1, 49)), DRIVE_CLASSES,
        BY, f"{UCI_PAGES}/325/dataset+for+sensorless+drive+diagnosis",
        (
            File("drive.npz", formats.npz, "a60d2e53e93a61fba3632c9cbd94a70c4c6e65454c7bf14246ffbc95b54f6092"),
            File(
                "Sensorless_drive_diagnosis.txt", formats.drive,
                "366b8c5c564a5a4d07600db9180d2871f51489104b554f6320781514059f35a9",
                f"{UCI_FILES}/00325/Sensorless_drive_diagnosis.txt",
            ),
        ),
        class_sizes=(5319,) * 11,
    ),
    Dataset(
        "mocap", DatasetKind.CLASSIFICATION, 78095, MOCAP_FEATURES, numbered("", *range(1, 6)),
        BY, f"{UCI_PAGES}/405/motion+capture+hand+postures",
        (File("Postures.zip", formats.mocap, None, f"{UCI_FILES}/00405/Postures.zip"),),
        class_sizes=(16265, 14978, 16344, 14775, 15733),
        note="a marker that was not seen is at 0; the dummy first record is left out",
    ),
    Dataset(
        "drive-2200", DatasetKind.CLASSIFICATION, 2200, numbered("f", *range(1, 49), digits=2), DRIVE_CLASSES,
        BY, f"{UCI_PAGES}/325/dataset+for+sensorless+drive+diagnosis",
        (
            File(
                "partial/drive_subset_2200.npz", formats.npz,
                "eb6b660af6db1d5787f073911218cc632630769288017ba320511723c19d38f1",
            ),
        ),
        class_sizes=(200,) * 11,
        note="200 rows of each class of drive; results on it are not those of drive",
    ),
    Dataset(
        "miniboo-6600", DatasetKind.CLASSIFICATION, 6600, MINIBOO_FEATURES, words("signal background"),
        BY, f"{UCI_PAGES}/199/miniboone+particle+identification",
        (
            File(
                "partial/miniboo_subset_6600_standardised.npz", formats.npz,
                "97b027703f9c01cc0c07610a3ba1c2be4aaaf8048d8e55682af5b66767a018a4",
            ),
        ),
        class_sizes=(1855, 4745),
        note="5 % of miniboo, in units that are not known; results on it are not those of miniboo",
    ),
    Dataset(
        "cifar10", DatasetKind.IMAGES, 60000, numbered("pixel", *range(3072)),
        words("airplane automobile bird cat deer dog frog horse ship truck"),
        "not stated", "https://www.cs.toronto.edu/~kriz/cifar.html",
        (
            File(
                "cifar10.npz", formats.cifar10_npz, "b3a2b673b2969a098ddb1e6b9d67cd2d70b7a9bc3818b926f2e0e2d95ed416ee",
                size=169_541_699,
            ),
            File(
                "cifar-10-binary.tar.gz", formats.cifar10,
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", size=170_052_171,
            ),
        ),
        class_sizes=(6000,) * 10,
        note="50,000 images to train with, then 10,000 to test with",
    ),
)  # fmt: skip

SIMULATED = tuple(
    Dataset(
        name, DatasetKind.REGRESSION, rows, tuple(SIMULATORS[name].box), ("y",),
        "a formula", f"{SIMULATOR_PAGES}/{page}.html", simulator=SIMULATORS[name],
    )
    for name, rows, page in (
        ("borehole", 200_000, "borehole"), ("hartmann6", 30_000, "hart6"), ("rastrigin5", 10_000, "rastr"),
        ("robot", 150_000, "robot"), ("otlcircuit", 20_000, "otlcircuit"),
    )
)  # fmt: skip

SYNTHETIC_IMAGES = Dataset(
    "synthetic-images", DatasetKind.IMAGES, 240, numbered("pixel", *range(3072)), CLASSES,
    "a formula", "whvi_paper.data.gratings", class_sizes=(24,) * 10, simulator=Gratings(),
    note="for tests, in the format of cifar10: 200 images to train with, then 40 to test with",
)  # fmt: skip

DATASETS = {dataset.name: dataset for dataset in (*REGRESSION, *CLASSIFICATION, *SIMULATED, SYNTHETIC_IMAGES)}
"""All of them by name."""


def named(name: str) -> Dataset:
    """The dataset of that name.

    >>> named("yacht").rows
    308
    """
    if name not in DATASETS:
        near = get_close_matches(name.lower(), DATASETS, 1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else "whvi datasets list shows all names"
        raise ArgumentError(f"dataset {name!r} is unknown; {hint}")
    return DATASETS[name]
