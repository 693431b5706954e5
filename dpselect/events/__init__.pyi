from .catalogue import read_catalogue as read_catalogue
from .counts import EventCounts as EventCounts
from .doors.files import Format as Format
from .grouped import GroupCounts as GroupCounts
from .reader import ProgressCallback as ProgressCallback
from .reader import read as read
from .report import ReadReport as ReadReport
